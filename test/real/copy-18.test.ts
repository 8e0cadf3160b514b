// Copies and bulk deletes over two RGWs of 18.2.

import t from "tap";
import { copySuite } from "./support/copy-suite.ts";
import { withLab } from "./support/lab.ts";

withLab(t, [], copySuite, { generation: 18 });

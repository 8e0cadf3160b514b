// Real clients, with the settings they come with, through Headgate in front of RGW 18.2.

import t from "tap";
import { testClientMatrix } from "./support/client-matrix.ts";

testClientMatrix(t, 18);

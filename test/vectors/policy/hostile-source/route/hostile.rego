# METADATA
# title: Hostile routing
# description: One way to go wrong for each bucket name; see hostile authorization.
package headgate.route

import rego.v1

# METADATA
# entrypoint: true
decision := object.union(usual, {"weights": {"nowhere": 1}}) if input.request.bucket == "unknown-cluster"

decision := usual if input.request.bucket == "allowed"

decision := usual if input.request.bucket == "conflict"

decision := object.union(usual, {"mode": "strict"}) if input.request.bucket == "conflict"

usual := {
	"weights": {"a": 1},
	"mode": "weighted",
	"spread": "object",
	"source": "hostile",
	"reason": "",
}

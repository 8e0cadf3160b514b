# METADATA
# title: Hostile authorization
# description: >
#   One way to go wrong for each bucket name, for the fail-closed tests. Built by
#   `headgate policy build -b test/vectors/policy/hostile-source -o test/vectors/policy/hostile`.
package headgate.authz

import rego.v1

# METADATA
# entrypoint: true
decision := {"allow": true} if input.request.bucket == "allowed"

decision := {"allow": "yes"} if input.request.bucket == "wrong-type"

decision := {"allow": true, "obligations": ["log"]} if input.request.bucket == "unknown-member"

decision := [] if input.request.bucket == "array"

decision := {"allow": true} if input.request.bucket == "conflict"

decision := {"allow": false} if input.request.bucket == "conflict"

decision := {"allow": count(numbers.range(1, 100000000)) > 0} if input.request.bucket == "memory"

decision := {"allow": true, "reason": time.weekday([0, "No/Zone"])} if input.request.bucket == "broken-builtin"

decision := {"allow": false, "reason": sprintf("%v", [time.now_ns()])} if input.request.bucket == "time"

decision := {"allow": false, "reason": format_int(rand.intn("x", 1000000), 10)} if input.request.bucket == "chance"

decision := {"allow": false, "reason": concat(",", headgate.rank("k", {"a": 1, "b": 1}))} if {
	input.request.bucket == "rank"
}

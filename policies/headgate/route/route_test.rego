# METADATA
# title: Routing tests
# description: What holds for any input; the rules one by one are policies/cases/route.json.
package headgate.route_test

import data.headgate.route
import rego.v1

clusters := {
	"a": {"state": "live", "weight": 1},
	"b": {"state": "draining_readonly", "weight": 1},
}

test_decided_without_any_data if {
	route.decision.refuse.code == "DrainRefused" with input as {}
}

test_closed_does_not_depend_on_the_bucket if {
	some placement in [null, {"a": 1}, {"b": 1}]
	bucket := {"placement": placement, "mode": "weighted", "weighting": "weights", "spread": "object"}
	decided := route.decision with input as {"request": {"storage_class": ""}, "bucket": bucket}
		with data.headgate.clusters as clusters
	decided.closed == {"b"}
}

test_refusal_names_no_cluster if {
	bucket := {"placement": {"b": 1}, "mode": "strict", "weighting": "weights", "spread": "object"}
	decided := route.decision with input as {"request": {"storage_class": ""}, "bucket": bucket}
		with data.headgate.clusters as clusters
	not contains(decided.refuse.message, "\"b\"")
}

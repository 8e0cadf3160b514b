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

regions := {
	"a": {"state": "live", "weight": 1, "region": "north"},
	"b": {"state": "live", "weight": 2, "region": "north"},
	"c": {"state": "live", "weight": 3, "region": "south"},
	"d": {"state": "draining_readonly", "weight": 3, "region": "west"},
}

located(constraint) := decided if {
	request := {"storage_class": "", "location_constraint": constraint}
	decided := route.decision with input as {"request": request} with data.headgate.clusters as regions
}

test_location_is_a_cluster_or_a_region if {
	some constraint, weights in {"b": {"b": 1}, "north": {"a": 1, "b": 2}, "south": {"c": 3}}
	decided := located(constraint)
	decided.weights == weights
	decided.mode == "strict"
	decided.source == "location"
}

test_location_that_drains_is_refused if {
	every constraint in ["d", "west"] {
		located(constraint).refuse.code == "DrainRefused"
	}
}

test_other_locations_have_no_say if {
	every constraint in ["", "default", null] {
		located(constraint).weights == {"a": 1, "b": 2, "c": 3}
	}
}

test_a_placement_goes_before_a_location if {
	decided := route.decision with input as {
		"request": {"storage_class": "", "location_constraint": "a"},
		"bucket": {"placement": {"b": 1}, "mode": "weighted", "weighting": "weights", "spread": "object"},
	}
		with data.headgate.clusters as {"a": {"state": "live", "weight": 1}, "b": {"state": "live", "weight": 1}}
	decided.source == "bucket_policy"
}

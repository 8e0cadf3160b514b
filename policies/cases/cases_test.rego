# METADATA
# title: Cases
# description: Runs policies/cases/*.json in the Go interpreter; the same cases run in WASM.
package cases_test

import rego.v1

test_route[item.note] if {
	some item in data.cases.route
	decided := data.headgate.route.decision with input as item.input
		with data.headgate.clusters as item.data.clusters
		with data.headgate.classes as item.data.classes
		with data.headgate.refusal as object.get(item.data, "refusal", {})
	json.unmarshal(json.marshal(decided)) == item.expect
}

test_authz[item.note] if {
	some item in data.cases.authz
	decided := data.headgate.authz.decision with input as item.input
		with data.headgate.anonymous as object.get(item.data, "anonymous", {})
		with data.headgate.clusters_decide as object.get(item.data, "clusters_decide", false)
	decided == item.expect
}

# METADATA
# title: Authorization tests
# description: What holds for any input; the rules one by one are policies/cases/authz.json.
package headgate.authz_test

import data.headgate.authz
import rego.v1

test_denied_without_any_input if {
	authz.decision.allow == false with input as {}
}

test_unknown_class_is_denied if {
	grants := [{"buckets": ["*"], "keys": ["*"], "allow": ["read", "list", "write", "delete", "admin"]}]
	authz.decision.allow == false with input as {
		"request": {
			"operation": "Strange",
			"operation_class": "strange",
			"tenant": "-",
			"bucket": "logs",
			"key": "a",
		},
		"principal": {"anonymous": false, "tenant": "-", "grants": grants},
	}
}

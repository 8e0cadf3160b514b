# METADATA
# scope: package
# title: Authorization
# description: >
#   Who may do what. A principal may do what its grants say, inside its own tenant unless a grant
#   names another one (`tenant:bucket`). Anonymous callers may do only what
#   `data.headgate.anonymous` says of a bucket. With `data.headgate.clusters_decide` everybody may do
#   everything, anonymous callers included: the clusters' own ACLs and policies are asked instead.
# schemas:
#   - input: schema.input
#   - data.headgate.anonymous: schema.anonymous
#   - data.headgate.clusters_decide: schema.clusters_decide
package headgate.authz

import rego.v1

# METADATA
# title: Authorization decision
# description: Allowed, or the S3 error code and the reason for the log. Never undefined.
# entrypoint: true
decision := {"allow": true, "reason": "granted"} if {
	not input.principal.anonymous
	granted
} else := {"allow": true, "reason": "the bucket is open to anonymous requests"} if {
	input.principal.anonymous
	open_to_anonymous
} else := {"allow": true, "reason": "a preflight is answered by the rules of the bucket"} if {
	input.request.operation == "OptionsObject"
} else := {"allow": true, "reason": "the clusters decide"} if {
	data.headgate.clusters_decide == true
} else := {"allow": false, "code": "AccessDenied", "reason": denial}

default denial := "no grant of the principal covers the request"

denial := "the bucket is not open to anonymous requests" if input.principal.anonymous

# The host filters the answer bucket by bucket.
granted if input.request.operation == "ListBuckets"

# Ceph's answer is about the caller alone.
granted if input.request.operation == "GetUsage"

granted if {
	some grant in input.principal.grants
	action_covered(grant.allow)
	some bucket_pattern in grant.buckets
	bucket_covered(bucket_pattern)
	key_covered(grant.keys)
}

action_covered(allowed) if input.request.operation_class in allowed

action_covered(allowed) if input.request.operation in allowed

action_covered(allowed) if {
	input.request.operation == "DeleteObjects"
	"DeleteObject" in allowed
}

# A pattern without a tenant means the principal's own.
bucket_covered(pattern) if {
	input.request.tenant == input.principal.tenant
	matches(pattern, input.request.bucket)
}

bucket_covered(pattern) if {
	contains(pattern, ":")
	matches(pattern, concat(":", [input.request.tenant, input.request.bucket]))
}

key_covered(patterns) if {
	some pattern in patterns
	matches(pattern, input.request.key)
}

key_covered(patterns) if {
	is_null(input.request.key)
	"*" in patterns
}

# Of a bucket as a whole, limits on keys take away what reveals or changes objects.
key_covered(_) if {
	is_null(input.request.key)
	input.request.operation_class in {"read", "admin"}
}

# The host decides on each key of a bulk delete as on a DeleteObject of its own.
key_covered(_) if {
	is_null(input.request.key)
	input.request.operation == "DeleteObjects"
}

# A list is covered when its prefix lies inside what a pattern covers.
key_covered(patterns) if {
	is_null(input.request.key)
	input.request.operation_class == "list"
	some pattern in patterns
	head := trim_suffix(pattern, "*")
	head != pattern
	is_literal(head)
	startswith(input.request.query.prefix[0], head)
}

open_to_anonymous if {
	input.request.operation_class in {"read", "list", "write"}
	some pattern, allowed in data.headgate.anonymous
	input.request.operation_class in allowed
	bucket_covered(pattern)
}

# `*` stands for any text, `/` included. Full globs cost ten times a comparison, so they come last.
matches("*", text) if is_string(text)

matches(pattern, text) if pattern == text

matches(pattern, text) if {
	head := trim_suffix(pattern, "*")
	head != pattern
	is_literal(head)
	startswith(text, head)
}

matches(pattern, text) if {
	not is_literal(trim_suffix(pattern, "*"))
	glob.match(pattern, null, text)
}

is_literal(text) if {
	not contains(text, "*")
	not contains(text, "?")
	not contains(text, "[")
	not contains(text, "{")
	not contains(text, "\\")
}

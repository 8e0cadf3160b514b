# METADATA
# scope: package
# title: Routing
# description: >
#   Which clusters may hold the objects of a bucket, with their weights. Rules, in order: the
#   bucket's own placement; the location that its creation names, a cluster or a region; the cluster
#   that the storage class is pinned to; the default wheel.
#   Ranking keys over the answer is the host's work.
# schemas:
#   - input: schema.input
#   - data.headgate.clusters: schema.clusters
#   - data.headgate.classes: schema.classes
#   - data.headgate.refusal: schema.refusal
package headgate.route

import rego.v1

default retry_after_seconds := 300

retry_after_seconds := data.headgate.refusal.retry_after_seconds

# METADATA
# title: Route decision
# description: The route, or why no cluster may take new bytes. Never undefined.
# entrypoint: true
decision := {
	"weights": placement_weights,
	"mode": input.bucket.mode,
	"spread": spread,
	"source": "bucket_policy",
	"reason": "the placement of the bucket",
	"closed": closed,
	"retry_after_seconds": retry_after_seconds,
} if {
	has_placement
	count(placement_weights) > 0
} else := {
	"weights": location_weights,
	"mode": "strict",
	"spread": spread,
	"source": "location",
	"reason": "the location that the creation of the bucket names",
	"closed": closed,
	"retry_after_seconds": retry_after_seconds,
} if {
	not has_placement
	count(location_weights) > 0
} else := {
	"weights": {pinned_cluster: 1},
	"mode": "strict",
	"spread": spread,
	"source": "pinned",
	"reason": "the cluster that the storage class is pinned to",
	"closed": closed,
	"retry_after_seconds": retry_after_seconds,
} if {
	not has_placement
	not has_location
	takes_named(data.headgate.clusters[pinned_cluster].state)
} else := {
	"weights": wheel_weights,
	"mode": "weighted",
	"spread": spread,
	"source": "default_wheel",
	"reason": wheel_reason,
	"closed": closed,
	"retry_after_seconds": retry_after_seconds,
} if {
	may_use_wheel
	count(wheel_weights) > 0
} else := {"refuse": {
	"code": "DrainRefused",
	"status": 503,
	"retry_after_seconds": retry_after_seconds,
	"message": refusal_message,
	"mode": refusal_mode,
}}

# A placement of the bucket, even one whose clusters are all gone.
has_placement if is_object(input.bucket.placement)

pinned_cluster := data.headgate.classes[input.request.storage_class]

# Only `weighted` may leave the bucket's placement; a pin never falls back.
may_use_wheel if {
	has_placement
	input.bucket.mode == "weighted"
}

may_use_wheel if {
	not has_placement
	not has_location
	not pinned_cluster
}

# LocationConstraint of CreateBucket: the id of a cluster, else the region of some. Any other text
# has no say here.
location := input.request.location_constraint if is_string(input.request.location_constraint)

has_location if data.headgate.clusters[location]

has_location if {
	some cluster in data.headgate.clusters
	cluster.region == location
}

location_weights := {location: 1} if {
	takes_named(data.headgate.clusters[location].state)
} else := {id: weight |
	some id, weight in wheel_weights
	not data.headgate.clusters[location]
	data.headgate.clusters[id].region == location
}

# Clusters of the placement that take new bytes. Weights of clusters are never mixed in.
placement_weights[id] := weight if {
	some id, given in input.bucket.placement
	takes_named(data.headgate.clusters[id].state)
	weight := placement_weight(given)
	weight > 0
}

placement_weight(_) := 1 if input.bucket.weighting == "uniform"

placement_weight(given) := given if input.bucket.weighting != "uniform"

# A cluster that is named explicitly takes new bytes before it is activated.
takes_named("live")

takes_named("pending")

# Every live cluster; one without a weight counts as one with weight 1.
wheel_weights[id] := weight if {
	some id, cluster in data.headgate.clusters
	cluster.state == "live"
	weight := wheel_weight(cluster.weight)
	weight > 0
}

wheel_weight(null) := 1

wheel_weight(given) := given if is_number(given)

# Clusters that take no new bytes now, whatever route a bucket is settled on.
closed contains id if {
	some id, cluster in data.headgate.clusters
	not takes_named(cluster.state)
}

default spread := "object"

spread := input.bucket.spread if is_string(input.bucket.spread)

default wheel_reason := "every live cluster by its weight"

wheel_reason := "every cluster of the bucket's placement drains; the default wheel" if has_placement

default refusal_message := "No cluster takes new objects now"

refusal_message := "The placement of this bucket is strict and all its clusters are draining" if {
	has_placement
	input.bucket.mode == "strict"
} else := "No cluster of this location takes new buckets now" if {
	not has_placement
	has_location
} else := "The storage class is pinned to a cluster that is draining" if {
	not has_placement
	pinned_cluster
}

default refusal_mode := null

refusal_mode := input.bucket.mode if has_placement

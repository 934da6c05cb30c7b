// Package cluster is where the members of a job find each other: addresses, leases, the coordinator's lock, and the nodes of a cluster.
//
// A Registry keeps a few keys under the prefix of its job:
//
//	/edl/<job>/ps_desired          how many pservers the job has; without a lease, so that it outlives every member
//	/edl/<job>/ps/<index>          address of a live pserver
//	/edl/<job>/master/lock         held by the one coordinator; its create revision is the fencing number of the job
//	/edl/<job>/master/addr         address of the coordinator that holds the lock
//	/edl/<job>/trainer/<rank>      present while a trainer lives
//	/edl/<job>/members/<key>       whether the last holder of a key has left in order; without a lease
//	/edl/nodes/<id>                address of a listener that starts roles
//
// A member owns its key for as long as it renews its lease. A lease that ends without Leave makes a lost member, which Lost reports, and tells the
// member itself through Done that it must change nothing any more. A lock alone does not exclude a process that was paused while it held
// it: only the fencing number in its messages, refused by whoever has seen a newer one, does that.
//
// The rules are written once, over a small store with revisions, leases and ordered watches. Open keeps the store in etcd, NewMemory in this
// process, and Embed runs an etcd server inside of this process for clusters of one machine.
package cluster

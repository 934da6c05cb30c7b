// Package cluster is where the members of a job find each other: addresses, leases, the coordinator's lock and what it keeps under it, and the nodes
// of a cluster.
//
// A Registry keeps a few keys under the prefix of its job:
//
//	/edl/<job>/ps_desired          how many pservers the job has; without a lease, so that it outlives every member
//	/edl/<job>/trainers_desired    how many trainers it wants now; without a lease
//	/edl/<job>/ps/<index>          address of a live pserver
//	/edl/<job>/master/lock         held by the one coordinator; its create revision is the fencing number of the job
//	/edl/<job>/master/addr         address of the coordinator that holds the lock
//	/edl/<job>/trainer/<rank>      present while a trainer lives
//	/edl/<job>/*_mark/...          whether the last holder of a key has left in order, and how many were lost before; without a lease
//	/edl/<job>/task_queues/...     the State of the coordinator
//	/edl/<job>/task_queues         names the last transaction of State
//	/edl/nodes/<id>                address of a listener that starts roles
//
// A member owns its key for as long as it renews its lease. A lease that ends without Leave makes a lost member, which Lost reports, and tells the
// member itself through Done that it must change nothing any more. Done is closed, too, when the lease could not be renewed for its duration, as it
// seems to the member: after a pause of the process that is the first thing that Done and State notice. Whoever knows that a member's process is dead
// need not wait for its lease: Bury.
//
// A lock alone does not exclude a process that was paused while it held it. Every transaction of State is conditioned on the lock, and messages carry
// its create revision, so that whoever has seen a newer one refuses them.
//
// The rules are written once, over a small store with revisions, leases and ordered watches. Open keeps the store in etcd, NewMemory in this
// process, and Embed runs an etcd server inside of this process for clusters of one machine. A real cluster of etcd may ask for certificates and a
// password (Access); roles find them in their environment. It should compact what is old (--auto-compaction-retention of etcd): a coordinator
// makes revisions all the time. The user needs read and write access to /edl/.
package cluster

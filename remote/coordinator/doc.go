// Package coordinator runs the coordinator role: it hands datasets out to trainers, decides with package generation who trains together, passes fed
// batches to trainers, and collects what they fetch into one stream of steps.
//
// Package queue is the pure state machine behind GetTask, package generation that behind Join. The Server here is their shell: it takes requests,
// makes what they change durable before it answers, in groups (transact), and carries out the effects of the membership (regroup).
//
// What has to outlive a coordinator is in the store of the cluster, under the lock that it holds. A coordinator that has lost the lock can change
// nothing there, and is refused by servers that have heard of a later one; it ends with fault.Fenced.
package coordinator

// Package kubernetes starts the roles of jobs as Kubernetes Jobs. Launcher is a launch.Launcher, so supervision, logs, scaling, draining and checkpoints are those of
// any other listener. Run is what a pod executes.
//
// Each start of a role is three objects of one name, which the Job owns, so that they go with it:
//
//	ConfigMap   the RoleSpec with the program of the role, compressed. One that is larger than an object may be is sent over the connection
//	Secret      the credentials that the role shows to the others of its job, and those for etcd
//	Job         one pod, which is not started again: the listener decides which start comes next, and from where, and makes another Job for it
//
// In the pod a launch.Keeper has the role, as a child process. The role begins by what is mounted, and goes on while no listener is connected:
//
//	listener                          API server                     pod
//	   |-- Job, ConfigMap, Secret ------->|--- scheduler, kubelet ---->|   the role begins
//	   |<- state of pods, events ---------|                            |
//	   |-- Keeper.Start, Follow, Lines (TLS, certificates) ----------->|   finds the role
//	   |<- reports, lines of its log, its end -------------------------|
//	   |-- delete the Job --------------->|                            |
//
// If the connection breaks, the listener asks for the pod: it connects again to one that runs, and tells how another has ended in the words of the cluster.
//
// With Settings.Keep, roles outlive their listener: each pod keeps its own role, as a launch.Keeper does, and the Job of a start stays until the run is released, so that Start finds it. Listeners of
// one name elect one.
//
// Files in reading order: settings.go says what a listener gives to all pods; jobpod.go what a job may give its own; manifest.go makes the objects, template.go the pod of a role, and budget.go what
// drains of nodes leave; api.go speaks to the API server, and pods.go follows pods; launcher.go has Launcher, handle.go a role that it has started, and state.go reads pods; lease.go elects a
// listener, and room.go counts what the nodes have. rolepods.go shows pods to users of the cluster. run.go is the other side, inside of the pod, and access.go what it takes along for etcd.
package kubernetes

// Package operator makes jobs of a listener from TrainingJobs, which are resources of a Kubernetes cluster, and writes there how far they are.
//
//	kubectl apply ---> TrainingJob ---> Operator ---> Listener: submit, suspend, resume, scale, stop
//	kubectl get   <--- its status  <------ | <------- how far the job is
//
// The spec of a TrainingJob is a job file (package jobspec) with a few fields more. An Operator watches the TrainingJobs of a namespace, and looks every two seconds at those
// whose jobs have not ended. Each time Decide, a pure function, says what to do next, from the resource and the job as they are: what has happened before does not matter, so nothing
// is lost when the operator starts again, or the API server is away.
//
// A TrainingJob has a finalizer while its job may run: who deletes it stops the job first. The job has the name of its resource, and its uid as a label, by which it is found.
//
// Client is for users of TrainingJobs, who speak to the API server alone.
//
// Files in reading order: resource.go has the types, crd.go the definition for the API server, conditions.go and decide.go what to do, operator.go the loop around it, and api.go the
// calls of the API server. logs.go keeps what pods have written that are gone. submit.go makes a TrainingJob of a job file, and client.go lists, scales, suspends and stops them.
package operator

// Package job is the wire contract of a job: what a user submits (JobSpec), what each process is given (RoleSpec), and what a
// running job reports (JobStatus, Event). The Go code is generated from job.proto.
package job

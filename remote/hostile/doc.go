// Package hostile holds the tests that send the services of a job what no honest peer sends: messages whose fields are absent, negative or huge, in
// any order. Handlers may refuse them, and those that carry the right identity may well end the job, but no handler may panic.
package hostile

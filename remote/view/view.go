// Package view says in words and numbers what is known of a job: what the commands print, and what the pages of a listener show. It asks nobody: everything
// is made from messages of the Listener service.
//
// view.go has states and roles, why.go what a job waits for, ledger.go the records of its passes, rounds.go where the time of its rounds went.
package view

import (
	"fmt"
	"strings"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/job"
)

// State is the word for the state of a job. A job that runs and does not go on is called paused.
func State(s *job.JobStatus) string {
	if s.GetPaused() != "" && s.GetState() == job.State_RUNNING {
		return "paused"
	}
	if s.GetSuspended() && s.GetState() == job.State_WAITING {
		return "suspended"
	}
	return strings.ToLower(s.GetState().String())
}

// Ended reports whether a job has ended.
func Ended(s *job.JobStatus) bool {
	switch s.GetState() {
	case job.State_SUCCEEDED, job.State_FAILED, job.State_STOPPED:
		return true
	}
	return false
}

// Running is how many trainers of a job run.
func Running(s *job.JobStatus) (trainers int) {
	for _, r := range s.GetRoles() {
		if r.Role == job.Role_TRAINER && r.State == job.State_RUNNING {
			trainers++
		}
	}
	return trainers
}

// Steps is how many steps of the training of a job are trained, those before the checkpoint or the state that it began with, too.
func Steps(s *job.JobStatus) uint64 { return s.GetEarlierSteps() + s.GetSteps() }

// Records is how many records were trained in these steps, each as often as it was, as far as is known of those before the job.
func Records(s *job.JobStatus) int64 { return s.GetEarlierRecords() + s.GetRecords() }

// RoleName is how commands call a role, such as trainer-1.
func RoleName(role job.Role, index uint32) string {
	if role == job.Role_COORDINATOR {
		return "coordinator"
	}
	return fmt.Sprintf("%s-%d", strings.ToLower(role.String()), index)
}

// LastEnd says in a few words how a role ended last, else what it waits for. The status has the whole message.
func LastEnd(r *job.RoleStatus) string {
	f := r.Failure
	switch {
	case r.Role == job.Role_STANDBY && r.InStep:
		return "in step with pserver " + fmt.Sprint(r.Index)
	case r.Role == job.Role_STANDBY && r.State == job.State_RUNNING:
		return "catches up"
	case f != nil:
	case r.Dropped > 0:
		return fmt.Sprintf("dropped in %d rounds", r.Dropped)
	case r.Waiting == "" || r.State != job.State_RUNNING: // what it waited for before it ended
		return ""
	default:
		return "waits for " + r.Waiting
	}
	kind := fault.Kind(f.Kind)
	text := f.Got
	switch {
	case kind == fault.Drained:
		return "drained"
	case text == "":
		text = f.Message
	}
	text = oneLine(text)
	switch {
	case text == "":
		text = kind.String()
	case f.Message == "" || kind != fault.Internal:
		text = kind.String() + ": " + text
	}
	return Shortened(text)
}

// Shortened cuts a text that is too long for a column of a table.
func Shortened(text string) string {
	if runes := []rune(text); len(runes) > maxLast {
		return string(runes[:maxLast-1]) + "…"
	}
	return text
}

// maxLast bounds what a table says of the last end of a role or a job, in characters.
const maxLast = 72

// oneLine replaces each run of white space by a blank.
func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

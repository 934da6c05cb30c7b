package view

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/remote/wire"
)

// Headline says in a line whether a job goes on, and why it does not. The second line, if there is one, is the error of a job that has ended with it.
func Headline(s *job.JobStatus, waits []*job.Wait, now time.Time) string {
	switch {
	case Ended(s):
		text := fmt.Sprintf("job %s has ended: %s\n", s.Job, State(s))
		if err := wire.FaultOf(s.Failure); err != nil {
			text += fmt.Sprintf("  %s\n", oneLine(err.Error()))
		}
		return text
	case s.GetState() == job.State_WAITING && Steps(s) > 0:
		return fmt.Sprintf("job %s does not go on, after %d steps: it stands in the job queue\n", s.Job, Steps(s))
	case s.GetState() == job.State_WAITING:
		return fmt.Sprintf("job %s has not started: it stands in the job queue\n", s.Job)
	case s.GetPaused() != "":
		return fmt.Sprintf("job %s does not go on, after %d steps: %s\n", s.Job, Steps(s), s.Paused)
	case s.GetWaiting() != "":
		return fmt.Sprintf("job %s is %s, after %d steps: it waits for %s\n", s.Job, State(s), Steps(s), s.Waiting)
	case AllWait(s, waits, now):
		return fmt.Sprintf("job %s does not go on, after %d steps: all of its trainers wait\n", s.Job, Steps(s))
	}
	return fmt.Sprintf("job %s is %s, after %d steps\n", s.GetJob(), State(s), Steps(s))
}

// standstill is how long all trainers must wait until a job is said to stand still: each waits for the others, and for servers, in each round.
const standstill = 2 * time.Second

// AllWait reports whether no trainer of a job that runs has done anything for some time.
func AllWait(s *job.JobStatus, waits []*job.Wait, now time.Time) bool {
	running := 0
	for _, role := range s.GetRoles() {
		if role.Role != job.Role_TRAINER || role.State != job.State_RUNNING {
			continue
		}
		running++
		name := fmt.Sprintf("trainer %d", role.Index)
		if !slices.ContainsFunc(waits, func(w *job.Wait) bool {
			return w.Who == name && w.Since != nil && now.Sub(w.Since.AsTime()) >= standstill
		}) {
			return false
		}
	}
	return running > 0 && s.GetState() == job.State_RUNNING
}

// Wait writes a wait: who waits for what, for whom, since when and until when. The last error, if there is one, is a second line.
func Wait(w *job.Wait, now time.Time) string {
	text := fmt.Sprintf("%s waits for %s", w.Who, w.What)
	if by := slices.DeleteFunc(slices.Clone(w.By), func(name string) bool { return strings.Contains(w.What, name) }); len(by) > 0 {
		text += " (" + strings.Join(by, ", ") + ")"
	}
	if w.Since != nil {
		text += fmt.Sprintf(", for %v", now.Sub(w.Since.AsTime()).Round(100*time.Millisecond))
	}
	if w.Until != nil {
		text += fmt.Sprintf(", at most %v more", max(0, w.Until.AsTime().Sub(now)).Round(100*time.Millisecond))
	}
	if w.LastError != "" {
		label := "last error: "
		if strings.Contains(w.LastError, "heard") { // a sign of life
			label = ""
		}
		text += "\n  " + label + oneLine(w.LastError)
	}
	return text + "\n"
}

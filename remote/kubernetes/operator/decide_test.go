package operator_test

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/edl-go/edl/remote/internal/scripttest"
	"github.com/edl-go/edl/remote/kubernetes/operator"
)

// TestDecide tells the stories of TrainingJobs. Each "look" lets Decide see the resource and the job as the commands before have left them, and carries out what it says of the
// resource; what it says to the listener is only told. Time goes on by "after=" of each command.
//
//	new label=QUEUE ttl=SECONDS            a resource that somebody has applied
//	spec suspend=yes|no replicas=N         what somebody changes
//	delete                                 somebody does
//	job STATE running=N steps=N loss=X     the job as the listener has it; saved=STEPS, suspended=yes, restarts=yes, name=OTHER, says=WORDS, waits=WORDS
//	forget                                 the listener does not know it any more
//	refuse WORDS, fail WORDS               the last submit was refused for good, or failed for now; ok: it is tried again
//	look                                   what Decide says, and the status that it writes
//	status                                 the status and the conditions as they are
func TestDecide(t *testing.T) {
	scripttest.RunDir(t, "testdata", func(t *testing.T) func(scripttest.Command) string {
		s := &story{t: t, now: time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)}
		return s.do
	})
}

type story struct {
	t    *testing.T
	now  time.Time
	tj   *operator.TrainingJob
	seen operator.Observed
}

func (s *story) do(c scripttest.Command) string {
	after, err := time.ParseDuration(c.Arg("after", "0s"))
	if err != nil {
		s.t.Fatal(err)
	}
	s.now = s.now.Add(after)
	number := func(key string) int64 {
		n, err := strconv.ParseInt(c.Arg(key, "0"), 10, 64)
		if err != nil {
			s.t.Fatal(err)
		}
		return n
	}
	words := func() string {
		var plain []string
		for _, a := range c.Args {
			if !strings.Contains(a, "=") {
				plain = append(plain, a)
			}
		}
		return strings.Join(plain, " ")
	}
	switch c.Name {
	case "new":
		s.tj = &operator.TrainingJob{ObjectMeta: metav1.ObjectMeta{Name: "digits", UID: types.UID("u1"), Generation: 1, Labels: map[string]string{}}}
		s.seen = operator.Observed{}
		if queue := c.Arg("label", ""); queue != "" {
			s.tj.Labels[operator.QueueLabel] = queue
		}
		if ttl := c.Arg("ttl", ""); ttl != "" {
			n := int32(number("ttl"))
			s.tj.Spec.TTLSecondsAfterFinished = &n
		}
		s.tj.Spec.Suspend = c.Arg("suspend", "no") == "yes"
	case "spec":
		s.tj.Spec.Suspend, s.tj.Spec.Replicas = c.Arg("suspend", "no") == "yes", int32(number("replicas"))
		s.tj.Generation++
	case "delete":
		at := metav1.NewTime(s.now)
		s.tj.DeletionTimestamp = &at
	case "job":
		j := &operator.Job{Name: c.Arg("name", "digits"), State: c.Args[0], Running: int32(number("running")), Steps: number("steps"), Message: strings.ReplaceAll(c.Arg("says", ""), "_", " "),
			Suspended: c.Arg("suspended", "no") == "yes", Restarts: c.Arg("restarts", "no") == "yes", Submitted: s.now}
		switch c.Args[0] {
		case "succeeded", "failed", "stopped":
			j.Ended, j.Succeeded, j.Ends = true, c.Args[0] == "succeeded", s.now
		}
		if loss := c.Arg("loss", ""); loss != "" {
			j.Loss = &loss
		}
		if c.Arg("saved", "") != "" {
			saved := fmt.Sprint("/store@", number("saved"))
			j.Saved = &saved
		}
		if what := c.Arg("waits", ""); what != "" {
			since := metav1.NewTime(s.now)
			j.Waits = []operator.Wait{{Who: "trainer 1", What: strings.ReplaceAll(what, "_", " "), Since: &since}}
		}
		s.seen.Job = j
	case "forget":
		s.seen.Job = nil
	case "refuse", "fail":
		s.seen.Refusal, s.seen.Refused = words(), c.Name == "refuse"
	case "ok":
		s.seen.Refusal, s.seen.Refused = "", false
	case "look":
		s.seen.Now, s.seen.Resource = s.now, s.tj
		return s.take(operator.Decide(s.seen))
	case "status":
		return told(&s.tj.Status)
	default:
		s.t.Fatalf("unknown command %s", c.Name)
	}
	return ""
}

// take carries out what a decision says of the resource, as the API server would.
func (s *story) take(d operator.Decision) string {
	var said []string
	switch d.Verb {
	case operator.Nothing:
	case operator.Scale:
		said = append(said, fmt.Sprint("scale to ", d.Trainers))
	default:
		said = append(said, string(d.Verb))
	}
	switch d.Verb {
	case operator.Protect:
		s.tj.Finalizers = []string{operator.Finalizer}
	case operator.Release:
		s.tj.Finalizers = nil
	case operator.Hold:
		s.tj.Spec.Suspend = true
	}
	if d.Status != nil {
		b, err := json.Marshal(d.Status) // what does not survive the API server is not there next time
		if err == nil {
			s.tj.Status = operator.Status{}
			err = json.Unmarshal(b, &s.tj.Status)
		}
		if err != nil {
			s.t.Fatal(err)
		}
		said = append(said, "writes "+s.tj.Status.State)
	}
	if d.After > 0 {
		said = append(said, fmt.Sprint("looks again in ", d.After))
	}
	if len(said) == 0 {
		return "nothing"
	}
	return strings.Join(said, ", ")
}

func told(s *operator.Status) string {
	parts := []string{fmt.Sprintf("%s: %d trainers, %d steps", s.State, s.Trainers, s.Steps)}
	if s.Loss != nil {
		parts = append(parts, "loss "+*s.Loss)
	}
	if s.Message != nil {
		parts = append(parts, "says "+*s.Message)
	}
	for _, w := range s.Waits {
		parts = append(parts, w.Who+" waits for "+w.What)
	}
	for _, c := range s.Conditions {
		parts = append(parts, fmt.Sprintf("%s %s %s", c.Type, c.Status, c.Reason))
	}
	return strings.Join(parts, "; ")
}

package edlcmd

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/edl-go/edl/remote/kubernetes"
	"github.com/edl-go/edl/remote/kubernetes/operator"
)

// What a TrainingJob waits for is told from its status and its pods. The commands themselves are tested by TestClusterChart and testdata/script/cluster.txtar.
func TestAnswerWhyResource(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	ago := func(d time.Duration) *metav1.Time { at := metav1.NewTime(now.Add(-d)); return &at }
	message := "3 of 4 trainers are missing"
	for _, c := range []struct {
		name string
		job  operator.TrainingJob
		pods []kubernetes.RolePod
		want []string
		not  string
	}{
		{"nobody has looked", operator.TrainingJob{}, nil, []string{"job digits is Pending", `no operator has looked at it: "edl operator"`}, "deleted"},
		{"deleted", operator.TrainingJob{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: ago(3 * time.Second)}, Status: operator.Status{State: "running"}}, nil,
			[]string{"job digits is Stopping", "it was deleted 3s ago"}, "no operator"},
		{"waits", operator.TrainingJob{Status: operator.Status{State: "running", Steps: 7, Trainers: 1, Message: &message,
			Conditions: []metav1.Condition{{Type: operator.Created, Status: metav1.ConditionTrue, Reason: "Submitted", LastTransitionTime: *ago(time.Minute)}, {Type: operator.Suspended, Status: metav1.ConditionFalse, Reason: "Resumed"}},
			Waits:      []operator.Wait{{Who: "trainer 1", What: "its pod to run", Since: ago(12 * time.Second), LastError: "Unschedulable: 0/2 nodes are available"}}}},
			[]kubernetes.RolePod{{Role: "trainer-0", Pod: "p0", State: kubernetes.PodRuns}, {Role: "trainer-1", Pod: "p1", State: kubernetes.PodEnded, Words: "an earlier start"},
				{Role: "trainer-1", Start: 1, Pod: "p2", State: kubernetes.PodWaits, Words: "Unschedulable: 0/2"}, {Role: "trainer-2", Pod: "p3", State: kubernetes.PodEnded, Words: "OOMKilled"}},
			[]string{"job digits is running, after 7 steps, with 1 trainers\n  3 of 4 trainers are missing\n", "Created for 1m0s: Submitted\n", "trainer 1 waits for its pod to run, for 12s\n  last error: Unschedulable: 0/2 nodes are available\n",
				"pod p2 of trainer-1 waits: Unschedulable: 0/2\n", "pod p3 of trainer-2 has ended: OOMKilled\n"}, "earlier start"},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.job.Name = "digits"
			got := answerWhyResource(whyOf(&c.job, c.pods), &c.job, now)
			for _, want := range c.want {
				if !strings.Contains(got, want) {
					t.Errorf("%q is missing:\n%s", want, got)
				}
			}
			if strings.Contains(got, c.not) && c.not != "" {
				t.Errorf("%q is there:\n%s", c.not, got)
			}
		})
	}
}

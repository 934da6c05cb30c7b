package edlcmd

import (
	"slices"
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

// A TrainingJob is shown with what its status says, and with its pods. What was refused is told once.
func TestWriteResource(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	ago := metav1.NewTime(now.Add(-time.Minute))
	percent := int32(40)
	s := &resourceShown{resourceRow: resourceRow{Job: "digits", State: "running", Trainers: 2, Progress: &percent, Left: "20s", Loss: "0.5", Steps: 70, Records: 4480, Message: "got a job\nthat goes on"},
		Wanted: 3, Checkpoint: "/data/ckpt@60", Refused: "got a job\nthat goes on",
		Conditions: []metav1.Condition{{Type: operator.Running, Status: metav1.ConditionTrue, Reason: "Training", LastTransitionTime: ago}, {Type: operator.Suspended, Status: metav1.ConditionFalse, Reason: "Resumed"}},
		Pods:       []kubernetes.RolePod{{Role: "trainer-0", Start: 1, Pod: "p0", Node: "n1", State: kubernetes.PodWaits, Words: "Unschedulable"}}}
	var b strings.Builder
	if err := writeResource(&b, s, now); err != nil {
		t.Fatal(err)
	}
	want := []string{"job digits", "state running", "message got a job that goes on", "trainers 2 of 3", "progress 40 %", "left 20s", "steps 70", "records 4480", "loss 0.5", "checkpoint /data/ckpt@60",
		"running for 1m0s: Training", "", "ROLE STARTS STATE NODE POD", "trainer-0 1 waits n1 p0 Unschedulable", ""}
	var got []string
	for _, line := range strings.Split(b.String(), "\n") {
		got = append(got, strings.Join(strings.Fields(line), " "))
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want\n%q", got, want)
	}
}

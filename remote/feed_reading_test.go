package remote_test

import (
	"testing"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/internal/testkit"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/remote"
)

// A program that reads its own data may be fed instead, as on one machine.
func TestAProgramThatReadsCanBeFed(t *testing.T) {
	m := testkit.Reading(t, 5, optimizer.SGD(0.05))
	local := executor.New()
	defer local.Close()
	cluster, err := remote.NewExecutor("", &remote.JobSpec{})
	if err != nil {
		t.Fatal(err)
	}
	defer cluster.Close()
	for step := range uint64(3) {
		feed := testkit.Batch(t, m.Program, step, 5)
		want, err := local.Run(bounded(t), m.Program, feed, "loss")
		if err != nil {
			t.Fatal(err)
		}
		got, err := cluster.Run(bounded(t), m.Program, feed, "loss")
		if err != nil {
			t.Fatal(err)
		}
		if !testkit.Same(got[0], want[0]) {
			t.Fatalf("step %d: loss %s, want %s", step, testkit.Show(got[0]), testkit.Show(want[0]))
		}
	}
}

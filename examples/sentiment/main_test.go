package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/edl-go/edl/examples/internal/exampletest"
	"github.com/edl-go/edl/executor"
)

// TestReviewsAreToldApart has the stop test of Fluid's chapter, an accuracy of 0.8, on what the last batches of the last pass are before they are trained.
func TestReviewsAreToldApart(t *testing.T) {
	for net, n := range networks {
		t.Run(net, func(t *testing.T) {
			if os.Getenv("EDL_LONG") == "" && net == "dynamic_rnn" {
				t.Skip("378 steps of loops: make examples")
			}
			out := t.TempDir()
			if net == "stacked" {
				out = exampletest.Page(t, func(out string) error { return write(out, "", net) })
			} else if err := write(out, "", net); err != nil {
				t.Fatal(err)
			}
			local := executor.New()
			defer local.Close()
			accuracies := exampletest.Train(t, local, out, n.passes, "accuracy")
			if last := exampletest.Mean(accuracies[len(accuracies)-20:]); last < 0.8 {
				t.Errorf("the accuracy is %g", last)
			}
		})
	}
}

func TestLaw(t *testing.T) {
	for _, net := range []string{"stacked", "conv", "dynamic_rnn"} {
		t.Run(net, func(t *testing.T) {
			out := t.TempDir()
			few := filepath.Join(out, "few.tsv")
			if err := os.WriteFile(few, madeUp(200), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := write(out, few, net); err != nil {
				t.Fatal(err)
			}
			exampletest.Obeys(t, out, "loss")
		})
	}
}

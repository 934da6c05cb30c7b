package main

import (
	"testing"

	"github.com/edl-go/edl/examples/internal/exampletest"
	"github.com/edl-go/edl/executor"
)

// TestReviewsAreToldApart has the stop test of Fluid's chapter, an accuracy of 0.8, on what the last batches of the last pass are before they are trained.
func TestReviewsAreToldApart(t *testing.T) {
	out := t.TempDir()
	if err := write(out, ""); err != nil {
		t.Fatal(err)
	}
	local := executor.New()
	defer local.Close()
	accuracies := exampletest.Train(t, local, out, 4, "accuracy")
	if last := exampletest.Mean(accuracies[len(accuracies)-20:]); last < 0.9 {
		t.Errorf("the accuracy is %g", last)
	}
}

func TestLaw(t *testing.T) {
	out := t.TempDir()
	if err := write(out, ""); err != nil {
		t.Fatal(err)
	}
	exampletest.Obeys(t, out, "loss")
}

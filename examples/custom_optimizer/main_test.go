package main

import (
	"bytes"
	"os"
	"testing"

	"github.com/edl-go/edl/examples/internal/exampletest"
	"github.com/edl-go/edl/executor"
)

// The servers of a cluster run the rule like the one machine does.
func TestRuleOfOnesOwnTrainsEverywhere(t *testing.T) {
	out := t.TempDir()
	if err := write(out); err != nil {
		t.Fatal(err)
	}
	local := executor.New()
	defer local.Close()
	accuracy := exampletest.Train(t, local, out, 20, "accuracy")
	if last := exampletest.Mean(accuracy[len(accuracy)-40:]); last < 0.9 {
		t.Errorf("accuracy of the last pass is %g", last)
	}
	cluster := exampletest.Train(t, exampletest.Cluster(t), out, 20, "accuracy")
	if last := exampletest.Mean(cluster[len(cluster)-40:]); last < 0.9 {
		t.Errorf("accuracy of the last pass on a cluster is %g", last)
	}
}

// The package comment of this example promises a rule of under 30 lines.
func TestRuleIsShort(t *testing.T) {
	source, err := os.ReadFile("main.go")
	if err != nil {
		t.Fatal(err)
	}
	from, to := bytes.Index(source, []byte("func lion(")), bytes.Index(source, []byte("// train is"))
	if from < 0 || to < from {
		t.Fatal("the rule was not found")
	}
	if lines := bytes.Count(source[from:to], []byte("\n")); lines >= 30 {
		t.Errorf("the rule has %d lines", lines)
	}
}

func TestLaw(t *testing.T) {
	out := t.TempDir()
	if err := write(out); err != nil {
		t.Fatal(err)
	}
	exampletest.Obeys(t, out, "loss")
}

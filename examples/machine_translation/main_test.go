package main

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/edl-go/edl/examples/internal/exampletest"
	"github.com/edl-go/edl/executor"
)

// Fluid's chapter stops after some batches. Here translations of sentences that training has not seen must be right.
func TestSentencesAreTranslated(t *testing.T) {
	t.Parallel()
	out := exampletest.Page(t, func(out string) error { return write(out, 1500) })
	local := executor.New()
	defer local.Close()
	losses := exampletest.Train(t, local, out, 20, "loss")
	if last := exampletest.Mean(losses[len(losses)-20:]); last > losses[0]/4 {
		t.Errorf("the loss falls from %g to %g", losses[0], last)
	}
	translator, err := newTranslator(t.Context(), filepath.Join(out, "model"))
	if err != nil {
		t.Fatal(err)
	}
	defer translator.exe.Close()
	pairs := madeUp(50, 7)
	var sentences [][]int64
	for _, p := range pairs {
		sentences = append(sentences, p.source)
	}
	got, err := translator.best(t.Context(), sentences)
	if err != nil {
		t.Fatal(err)
	}
	right := 0
	for i, p := range pairs {
		if slices.Equal(got[i], p.target) {
			right++
		}
	}
	if right < 35 {
		t.Errorf("%d of %d sentences are right; %v is %v, want %v", right, len(pairs), pairs[0].source, got[0], pairs[0].target)
	}
	t.Logf("%d of %d sentences are right", right, len(pairs))
}

// The recurrent network that writes trains on a cluster as it does on one machine.
func TestLaw(t *testing.T) {
	t.Parallel()
	out := t.TempDir()
	if err := write(out, 40); err != nil {
		t.Fatal(err)
	}
	exampletest.Obeys(t, out, "loss")
}

func TestWordsThatAreNotKnown(t *testing.T) {
	if _, err := numbers([]string{"the", "elephant"}, source); err == nil {
		t.Error("an unknown word is accepted")
	}
	if err := speak(t.Context(), t.TempDir(), ""); err == nil {
		t.Error("no sentence is accepted")
	}
}

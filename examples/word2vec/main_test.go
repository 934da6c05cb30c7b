package main

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/edl-go/edl/examples/internal/exampletest"
	"github.com/edl-go/edl/executor"
)

func TestWordsAreGuessedBetter(t *testing.T) {
	out := exampletest.Page(t, func(out string) error { return write(out, "") })
	local := executor.New()
	defer local.Close()
	losses := exampletest.Train(t, local, out, 5, "loss")
	first, last := losses[0], exampletest.Mean(losses[len(losses)-10:])
	if last > first-1 {
		t.Errorf("loss went from %g to %g", first, last)
	}
	if _, err := os.Stat(filepath.Join(out, "model", "words")); err != nil {
		t.Error(err)
	}
}

func TestCount(t *testing.T) {
	numbers, words := count("The wheel turns. The stone turns, the corn…")
	if !slices.Equal(words, []string{"the", "turns", "corn", "stone", "wheel"}) {
		t.Errorf("words are %q", words)
	}
	if !slices.Equal(numbers, []int64{0, 4, 1, 0, 3, 1, 0, 2}) {
		t.Errorf("numbers are %v", numbers)
	}
}

func TestLaw(t *testing.T) {
	out := t.TempDir()
	if err := write(out, ""); err != nil {
		t.Fatal(err)
	}
	exampletest.Obeys(t, out, "loss")
}

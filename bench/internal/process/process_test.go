package process

import (
	"context"
	"os/exec"
	"strings"
	"testing"
	"time"
)

func TestRunReturnsWhatAProcessPrints(t *testing.T) {
	o, err := Run(exec.Command("sh", "-c", "echo one"))
	if err != nil || string(o.Output) != "one\n" || o.Others < 0 {
		t.Errorf("%+v, %v", o, err)
	}
	if _, err := Run(exec.Command("sh", "-c", "echo lost >&2; exit 1")); err == nil || !strings.Contains(err.Error(), "lost") {
		t.Errorf("a process that fails: %v", err)
	}
}

// Others that use more than -1 cores are always there, so every try is disturbed.
func TestCalmTriesAgain(t *testing.T) {
	for _, test := range []struct {
		cores float64
		want  int
	}{{-1, 3}, {1e9, 1}} {
		tries := 0
		_, err := Calm(t.Context(), time.Minute, 2, test.cores, func(ctx context.Context) *exec.Cmd {
			tries++
			return exec.CommandContext(ctx, "true")
		})
		if err != nil || tries != test.want {
			t.Errorf("%v cores: %d tries, want %d; %v", test.cores, tries, test.want, err)
		}
	}
}

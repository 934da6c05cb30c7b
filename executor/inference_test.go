package executor_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/executor/internal/fixture"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/program"
)

func TestSavedProgramsNameTheirFeedsAndTargets(t *testing.T) {
	m := fixture.FitALine(t, optimizer.SGD(0.1))
	l := executor.New()
	defer l.Close()
	prediction := "fc_0.tmp_1"
	want, err := l.Run(t.Context(), m.Program, line(1, 4), prediction)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	inference, err := m.Program.InferenceProgram([]string{"x"}, []string{prediction})
	if err == nil {
		err = executor.SavePersistables(l.Scope(), dir, inference)
	}
	if err != nil {
		t.Fatal(err)
	}
	if got := executor.Persistables(inference); !slices.Equal(got, []string{"fc_0.b_0", "fc_0.w_0"}) {
		t.Errorf("persistables %v", got)
	}
	fresh := executor.New(executor.WithStage(program.StageInference))
	defer fresh.Close()
	if err := executor.LoadParams(fresh.Scope(), dir, inference); err != nil {
		t.Fatal(err)
	}
	got, err := fresh.Run(t.Context(), inference, executor.Feed{"x": line(1, 4)["x"]})
	if err != nil {
		t.Fatal(err)
	}
	again, err := l.Run(t.Context(), m.Program, line(1, 4), prediction)
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != 1 || !slices.Equal(got[0].Float32s(), again[0].Float32s()) || slices.Equal(got[0].Float32s(), want[0].Float32s()) {
		t.Errorf("predicts %v, want %v of the parameters that were saved", got, again[0].Float32s())
	}
	if _, err := fresh.Run(t.Context(), inference, nil); err == nil || !strings.Contains(err.Error(), "fed by x") {
		t.Errorf("without a feed: %v", err)
	}
}

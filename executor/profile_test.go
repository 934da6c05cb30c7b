package executor_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/executor/internal/fixture"
	"github.com/edl-go/edl/internal/testkit"
	"github.com/edl-go/edl/optimizer"
)

func TestTraceHasEveryStepOnALane(t *testing.T) {
	m := fixture.MLP(t, 20, []int64{16}, optimizer.Adam(0.01))
	feed := executor.Feed{"image": fixture.Numbers(1, 8, 20), "label": fixture.Labels(1, 8, 10)}
	profile := new(executor.Profile)
	l := executor.New(executor.WithProfile(profile), executor.WithWorkers(2), executor.WithGrain(0))
	defer l.Close()
	for range 3 {
		if _, err := l.Run(t.Context(), m.Program, feed, m.Loss); err != nil {
			t.Fatal(err)
		}
	}
	var file bytes.Buffer
	if err := profile.WriteTrace(&file); err != nil {
		t.Fatal(err)
	}
	var trace struct {
		TraceEvents []struct {
			Name string
			Ph   string
			Tid  int
			Ts   float64
			Dur  float64
			Args map[string]any
		}
	}
	if err := json.Unmarshal(file.Bytes(), &trace); err != nil {
		t.Fatal(err)
	}
	rounds, lanes := map[any]bool{}, map[int]bool{}
	for _, e := range trace.TraceEvents {
		switch e.Ph {
		case "M":
			lanes[e.Tid] = true
		case "X":
			rounds[e.Args["round"]] = true
			if e.Name == "" || e.Dur < 0 || e.Ts < 0 || !strings.Contains(fmt.Sprint(e.Args["line"]), "fixture.go") && !strings.Contains(e.Name, "fill") {
				t.Errorf("event %+v", e)
			}
		}
	}
	if len(rounds) != 3 || !lanes[0] || len(lanes) > 2 {
		t.Errorf("rounds %v, lanes %v", rounds, lanes)
	}
}

func TestDescribedPlanNamesWhatItFused(t *testing.T) {
	m := fixture.Digits(t, optimizer.Adam(0.01))
	for _, c := range []struct {
		options []executor.Option
		want    []string
	}{
		{nil, []string{"conv2d+elementwise_add+relu+pool2d", "5 adam", "float32[4 20 24 24]", "us"}},
		{[]executor.Option{executor.WithoutFusion(executor.FuseUpdates)}, []string{"conv2d+elementwise_add+relu+pool2d", " adam "}},
		{[]executor.Option{executor.WithoutFusion()}, []string{" conv2d ", " relu ", " adam "}},
	} {
		var out strings.Builder
		if err := executor.DescribePlan(t.Context(), &out, m.Program, 4, 1, c.options...); err != nil {
			t.Fatal(err)
		}
		for _, want := range c.want {
			if !strings.Contains(out.String(), want) {
				t.Errorf("no %q in\n%s", want, out.String())
			}
		}
	}
}

func TestProgramThatReadsItsDataIsDescribedWithout(t *testing.T) {
	m := testkit.ReadingLine(t, optimizer.SGD(0.01))
	var out strings.Builder
	if err := executor.DescribePlan(t.Context(), &out, m.Program, 6, 0); err != nil || !strings.Contains(out.String(), "float32[6 1]") {
		t.Errorf("%v\n%s", err, out.String())
	}
}

package program_test

import (
	"testing"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/program"
)

func TestInferenceProgram(t *testing.T) {
	c, err := training(t).InferenceProgram([]string{"x", "y"}, []string{"loss", "fc_0.tmp_1"})
	if err != nil {
		t.Fatal(err)
	}
	requireEqual(t, "ops", types(c.Global()), []string{"feed", "feed", "mul", "elementwise_add", "elementwise_sub", "square", "mean", "fetch", "fetch"})
	if got := c.Global().Ops[0].Out("Out"); got != "y" {
		t.Errorf("the first feed op fills %s, want the last feed as in Fluid's files", got)
	}
	requireEqual(t, "feeds", c.Feeds(), []string{"x", "y"})
	requireEqual(t, "targets", c.Targets(), []string{"loss", "fc_0.tmp_1"})
	if v, _ := c.Global().Var("feed"); v == nil || v.Kind != program.FeedMinibatch || !v.Persistable {
		t.Errorf("the feed variable is %+v", v)
	}
	again, err := c.InferenceProgram([]string{"fc_0.tmp_0"}, []string{"fc_0.tmp_1"})
	if err != nil {
		t.Fatal(err)
	}
	requireEqual(t, "ops of a part", types(again.Global()), []string{"feed", "elementwise_add", "fetch"})

	_, err = training(t).InferenceProgram([]string{"x"}, []string{"loss"})
	requireFault(t, err, fault.InvalidArgument, `"y"`, "neither fed", "fit.go:12")
	_, err = training(t).InferenceProgram([]string{"x", "y"}, []string{"fc_0.tmp_1"})
	requireFault(t, err, fault.InvalidArgument, `"y"`, "do not depend")
	_, err = training(t).InferenceProgram([]string{"z"}, []string{"loss"})
	requireFault(t, err, fault.NotFound, `"z"`)
	_, err = training(t).InferenceProgram([]string{"x"}, nil)
	requireFault(t, err, fault.InvalidArgument, "no target")
}

func TestRealInferenceFilesNameTheirFeedsAndTargets(t *testing.T) {
	data := models(t)
	p := decode(t, data["word2vec/__model__"])
	if feeds, targets := p.Feeds(), p.Targets(); len(feeds) != 4 || len(targets) != 1 {
		t.Errorf("feeds %v, targets %v", feeds, targets)
	}
	rebuilt, err := p.InferenceProgram(p.Feeds(), p.Targets())
	if err != nil {
		t.Fatal(err)
	}
	requireEqual(t, "ops", types(rebuilt.Global()), types(p.Global()))
}

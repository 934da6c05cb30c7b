package edlcmd

import (
	"strings"
	"testing"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/proto/job"
	"github.com/spf13/cobra"
)

// chanced is a program with a seed, a batch size and a learning rate. It draws initial values, dropout and a shuffle.
func chanced(t *testing.T, seed int64, shuffle, batch int, rate float64) *program.Program {
	t.Helper()
	m := layers.NewModel().Seed(seed)
	table := layers.OpenDataset(m, "train", layers.Field("x", layers.Dims(2)), layers.Field("y", layers.Dims(1)))
	read := layers.Read(layers.Batch(layers.Shuffle(table, 10, shuffle), batch))
	loss := layers.Mean(layers.SquareErrorCost(layers.FC(layers.Dropout(read[0], 0.5), 1), read[1]))
	optimizer.SGD(rate).Minimize(loss)
	p, err := m.Program()
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// override applies flags to a program.
func override(t *testing.T, p *program.Program, spec *job.JobSpec, goesOn bool, args ...string) error {
	t.Helper()
	var o overrides
	cmd := &cobra.Command{}
	o.add(cmd)
	if err := cmd.ParseFlags(args); err != nil {
		t.Fatal(err)
	}
	return o.apply(cmd.Flags(), spec, p, goesOn)
}

// An overridden program is the one that would have been built with these values.
func TestOverridesBuildTheOtherProgram(t *testing.T) {
	same := func(p, want *program.Program) bool {
		a, err := p.Hash()
		b, wrong := want.Hash()
		if err != nil || wrong != nil {
			t.Fatal(err, wrong)
		}
		return a == b
	}
	p := chanced(t, 5, 9, 4, 0.5)
	if err := override(t, p, &job.JobSpec{}, false, "--learning-rate", "0.125", "--batch-size", "16", "--seed", "-3"); err != nil {
		t.Fatal(err)
	}
	if !same(p, chanced(t, -3, 9^5^-3, 16, 0.125)) {
		t.Error("the program is not that of the other values")
	}
	if rates := executor.LearningRates(p); len(rates) != 1 {
		t.Errorf("rates %v", rates)
	}
	if err := override(t, p, &job.JobSpec{}, false, "--learning-rate", "0.5", "--batch-size", "4", "--seed", "5"); err != nil || !same(p, chanced(t, 5, 9, 4, 0.5)) {
		t.Errorf("the program is not the first again: %v", err)
	}
	if err := override(t, p, &job.JobSpec{}, false); err != nil || !same(p, chanced(t, 5, 9, 4, 0.5)) {
		t.Errorf("without a flag the program has changed: %v", err)
	}
}

// An override that would change nothing is refused.
func TestIdleOverrides(t *testing.T) {
	scheduled := func() *program.Program {
		m := layers.NewModel()
		x := layers.Data(m, "x", layers.Dims(2))
		optimizer.SGD(optimizer.Exponential(0.1, 2, 0.5, false)).Minimize(layers.Mean(layers.FC(x, 1, layers.Param(layers.ParamAttr{Initializer: layers.Constant(0)}))))
		p, err := m.Program()
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	trained := func() *program.Program { return chanced(t, 1, 2, 4, 0.5) }
	for _, c := range []struct {
		p      *program.Program
		spec   *job.JobSpec
		goesOn bool
		flag   string
		value  string
		says   string
	}{
		{trained().CloneForTest(), &job.JobSpec{}, false, "learning-rate", "0.5", "trains nothing"},
		{scheduled(), &job.JobSpec{}, false, "learning-rate", "0.5", "by a schedule"},
		{trained(), &job.JobSpec{}, true, "learning-rate", "0.5", "--from-start"},
		{trained(), &job.JobSpec{Resume: "ckpt"}, false, "learning-rate", "0.5", "without --resume"},
		{trained(), &job.JobSpec{}, false, "learning-rate", "-1", "a number from 0"},
		{trained(), &job.JobSpec{}, false, "learning-rate", "NaN", "a number from 0"},
		{trained(), &job.JobSpec{}, false, "learning-rate", "1e300", "a number from 0"},
		{trained(), &job.JobSpec{}, false, "batch-size", "0", "1 or more"},
		{scheduled(), &job.JobSpec{}, false, "batch-size", "8", "divide its data into batches"},
		{scheduled(), &job.JobSpec{}, false, "seed", "8", "nothing to chance"},
	} {
		err := override(t, c.p, c.spec, c.goesOn, "--"+c.flag, c.value)
		if err == nil || !strings.HasPrefix(err.Error(), "--"+c.flag) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("--%s %s: %v, want %q", c.flag, c.value, err, c.says)
		}
	}
}

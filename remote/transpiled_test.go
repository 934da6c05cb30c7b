package remote_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"os/exec"
	"testing"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/internal/testkit"
	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/remote"
	"github.com/edl-go/edl/tensor"
	"github.com/edl-go/edl/transpiler"
)

// lookalikes is a model whose parameters are called like beginnings, slices and gradients of others.
func lookalikes(t *testing.T) testkit.Model {
	t.Helper()
	m := layers.NewModel().Seed(3)
	r := layers.OpenDataset(m, testkit.Dataset, layers.Field("x", layers.Dims(1), layers.DType(tensor.Int64)), layers.Field("y", layers.Dims(1)))
	v := layers.Read(layers.Batch(r, 8))
	named := func(name string) layers.Option { return layers.Param(layers.ParamAttr{Name: name}) }
	h := layers.Mul(layers.Embedding(v[0], 7, 4, named("emb")), layers.Embedding(v[0], 5, 4, named("embedding")))
	for _, name := range []string{"w", "w.block0", "w.block1", "w@GRAD.block0"} {
		h = layers.FC(h, 4, layers.NoBias(), named(name))
	}
	loss := layers.Mean(layers.SquareErrorCost(layers.FC(h, 1, layers.NoBias(), named("last")), v[1]))
	optimizer.Adagrad(0.1).Minimize(loss)
	return testkit.Built(t, m, loss)
}

// Trap 8: names that begin like others, more servers than parameters, and servers without any.
func TestLookalikeNames(t *testing.T) {
	comparesValues(t)
	t.Parallel()
	m := lookalikes(t)
	data := testkit.Records(t, t.TempDir(), 30, func(i int) []*tensor.Tensor {
		return []*tensor.Tensor{testkit.Random(t, tensor.Int64, uint64(i), 1), testkit.Random(t, tensor.Float32, uint64(i), 1)}
	})
	r := newRig(t)
	l := r.listener()
	for _, spec := range []*remote.JobSpec{
		{Trainers: 2, Pservers: 2, MinBlockSize: 4},
		{Trainers: 2, Pservers: 9, NoSlice: true},
		{Trainers: 2, Pservers: 3, MinBlockSize: 4, SplitMethod: "hash_name"},
	} {
		run := executor.TrainOptions{Data: data, Save: t.TempDir()}
		_, status := trainOn(t, executorOf(t, l, spec), m, run, nil)
		empty := 0
		for _, p := range status.Placement {
			if p.Slices == 0 {
				empty++
			}
		}
		if spec.Pservers == 9 && empty != 2 {
			t.Errorf("%d of 9 servers hold nothing of 7 parameters", empty)
		}
		mustEqualReference(t, m, spec.Trainers, run)
	}
}

// Trap 12: the mode and the slicing that a job asks for are those that it gets, also where they are not the default.
func TestSpecIsHonoured(t *testing.T) {
	t.Parallel()
	m := lookalikes(t)
	data := testkit.Records(t, t.TempDir(), 8, func(i int) []*tensor.Tensor {
		return []*tensor.Tensor{testkit.Random(t, tensor.Int64, uint64(i), 1), testkit.Random(t, tensor.Float32, uint64(i), 1)}
	})
	l := listener(t)
	for _, c := range []struct {
		mode   job.Mode
		whole  bool
		slices int32
	}{{job.Mode_SYNC, false, 2 * 7}, {job.Mode_SYNC, true, 7}, {job.Mode_ASYNC, false, 2 * 7}, {job.Mode_ASYNC, true, 7}} {
		e := executorOf(t, l, &remote.JobSpec{Trainers: 2, Pservers: 2, Mode: c.mode, NoSlice: c.whole, MinBlockSize: 1})
		summary, status := trainOn(t, e, m, executor.TrainOptions{Data: data, Passes: 2}, nil)
		slices := int32(0)
		for _, p := range status.Placement {
			slices += p.Slices
		}
		if status.Mode != c.mode || slices != c.slices {
			t.Errorf("mode %v with %d slices, want %v with %d", status.Mode, slices, c.mode, c.slices)
		}
		if summary.Records != 2*8 {
			t.Errorf("%v: %d records in 2 passes over 8", c.mode, summary.Records)
		}
	}
}

// Trap 9: random initial values are those of the whole variable, however it is sliced.
func TestInitialValues(t *testing.T) {
	comparesValues(t)
	t.Parallel()
	m := layers.NewModel().Seed(9)
	x := layers.Data(m, "x", layers.Dims(5))
	h := x
	for _, init := range []layers.Initializer{layers.Uniform(-1, 1), layers.Normal(0, 1), layers.TruncatedNormal(0, 1), layers.Xavier(),
		layers.XavierNormal(), layers.MSRA(), layers.MSRANormal(), layers.Constant(0.5)} {
		h = layers.FC(h, 5, layers.Param(layers.ParamAttr{Initializer: init}), layers.Bias(layers.ParamAttr{Initializer: init}))
	}
	loss := layers.Mean(h)
	optimizer.SGD(0.0).Minimize(loss) // a step at rate 0 leaves everything as it is
	model := testkit.Built(t, m, loss)
	local := executor.New()
	defer local.Close()
	if err := local.Startup(bounded(t), model.Program); err != nil {
		t.Fatal(err)
	}
	r := newRig(t)
	l := r.listener()
	for _, spec := range []*remote.JobSpec{
		{Trainers: 1, Pservers: 1, NoSlice: true},
		{Trainers: 2, Pservers: 4, MinBlockSize: 1},
		{Trainers: 1, Pservers: 3, MinBlockSize: 8, SplitMethod: "hash_name"},
	} {
		spec.Save = t.TempDir()
		e := executorOf(t, l, spec)
		if _, err := e.Run(bounded(t), model.Program, testkit.Batch(t, model.Program, 1, 2)); err != nil {
			t.Fatal(err)
		}
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
		if err := testkit.Difference(testkit.Saved(t, spec.Save, model.Program), testkit.Persistables(local.Scope(), model.Program)); err != nil {
			t.Errorf("%d servers: %v", spec.Pservers, err)
		}
	}
}

// describeTranspiled is a process that transpiles the program on its standard input and prints what comes out.
func describeTranspiled(ctx context.Context) error {
	b, err := io.ReadAll(os.Stdin)
	if err != nil {
		return err
	}
	p, err := program.Decode(b, program.DefaultLimits())
	if err != nil {
		return err
	}
	text, err := transpiled(ctx, p)
	fmt.Print(text)
	return err
}

// transpiled describes the role programs and the placement of p on 5 servers by each method.
func transpiled(ctx context.Context, p *program.Program) (string, error) {
	text := ""
	for _, method := range []string{transpiler.RoundRobin, transpiler.HashName} {
		r, err := transpiler.Transpile(ctx, p, transpiler.Config{Trainers: 3, PServers: 5, MinBlockSize: 4, SplitMethod: method})
		if err != nil {
			return "", err
		}
		text += fmt.Sprintf("%s %+v\n", method, r.Placement)
		for _, named := range r.Programs() {
			b, err := named.Program.Encode()
			if err != nil {
				return "", err
			}
			text += fmt.Sprintf("%s %x\n", named.Name, sha256.Sum256(b))
		}
	}
	return text, nil
}

// Trap 11: what is placed where does not depend on the process that decides it.
func TestPlacementIsTheSameInEveryProcess(t *testing.T) {
	p := testkit.Fed(t, optimizer.Adam(0.1, optimizer.ClipGradients(optimizer.ByGlobalNorm(1)))).Program
	encoded, err := p.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if p, err = program.Decode(encoded, program.DefaultLimits()); err != nil {
		t.Fatal(err)
	}
	want, err := transpiled(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		child := exec.CommandContext(bounded(t), os.Args[0])
		child.Env = append(os.Environ(), behaviourEnv+"=transpile")
		child.Stdin = bytes.NewReader(encoded)
		got, err := child.Output()
		if err != nil {
			t.Fatal(err)
		}
		if string(got) != want {
			t.Fatalf("another process places\n%s\nwant\n%s", got, want)
		}
	}
}

// Trap 22: Fluid's golden table of slices, in rows, and accumulators that are cut as their parameters are.
func TestGoldenSlices(t *testing.T) {
	for _, c := range []struct {
		min  int64
		dims []int64
		rows []int64
	}{
		{1024, []int64{3, 5}, []int64{3}},
		{1024, []int64{28, 784}, []int64{3, 3, 3, 3, 3, 3, 3, 3, 3, 1}},
		{1024, []int64{8, 1020}, []int64{2, 2, 2, 2}},
		{1024, []int64{800, 10}, []int64{115, 115, 115, 115, 115, 115, 110}},
		{8192, []int64{28, 784}, []int64{14, 14}},
		{8192, []int64{8, 1020}, []int64{8}},
		{8192, []int64{800, 10}, []int64{800}},
	} {
		m := layers.NewModel()
		x := layers.Data(m, "x", layers.Dims(c.dims[0]))
		loss := layers.Mean(layers.FC(x, c.dims[1], layers.NoBias(), layers.Param(layers.ParamAttr{Name: "w"})))
		optimizer.Momentum(0.1, 0.9).Minimize(loss)
		r, err := transpiler.Transpile(t.Context(), testkit.Built(t, m, loss).Program, transpiler.Config{Trainers: 1, PServers: 10, MinBlockSize: c.min})
		if err != nil {
			t.Fatal(err)
		}
		var rows []int64
		for _, s := range r.Placement.Of("w") {
			rows = append(rows, s.Rows)
			if bytes := 2 * 4 * s.Rows * c.dims[1]; s.Bytes < bytes || s.Bytes > bytes+16 {
				t.Errorf("%v: %d rows of parameter and velocity take %d bytes, want %d", c.dims, s.Rows, s.Bytes, bytes)
			}
			v, ok := r.PServers[s.Server].Global().Var(velocity(s))
			if !ok || v.Dims[0] != s.Rows {
				t.Errorf("%v: velocity %v beside %d rows of %s", c.dims, v, s.Rows, s.Name)
			}
		}
		if fmt.Sprint(rows) != fmt.Sprint(c.rows) {
			t.Errorf("%v in blocks of %d: %v, want %v", c.dims, c.min, rows, c.rows)
		}
	}
}

// velocity is the accumulator that goes with a slice of "w".
func velocity(s transpiler.Slice) string {
	if s.Block == transpiler.Whole {
		return "w_velocity_0"
	}
	return fmt.Sprintf("w_velocity_0.block%d", s.Block)
}

package serving_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/serving"
	"github.com/edl-go/edl/tensor"
)

// Requests of any size, alone or at the same time, get what the executor computes for them.
func TestPredictionsAreThoseOfTheExecutor(t *testing.T) {
	for name, c := range map[string]struct {
		build  func(int64) (*layers.Model, []layers.Variable)
		inputs func(n int) map[string]*tensor.Tensor
	}{
		"images":    {digits, func(n int) map[string]*tensor.Tensor { return images(int64(n), uint64(n)) }},
		"sequences": {words, func(n int) map[string]*tensor.Tensor { return texts(n, uint64(n)) }},
	} {
		dir := t.TempDir()
		m, outputs := c.build(3)
		want := oracle(t, exported(t, dir, m, outputs...), dir)
		for _, wait := range []time.Duration{0, time.Millisecond} {
			t.Run(fmt.Sprint(name, wait), func(t *testing.T) {
				model := open(t, dir, serving.WithWorkers(3), serving.WithMaxBatch(24), serving.WithMaxWait(wait))
				if !model.Schema().Rowwise {
					t.Fatal("the model is not known to compute each record by itself")
				}
				var group sync.WaitGroup
				for _, n := range []int{1, 2, 3, 5, 7, 8, 11, 12, 13, 16, 23, 24, 25, 49, 100, 1, 1, 1} {
					group.Go(func() {
						inputs := c.inputs(n)
						got, err := model.Predict(t.Context(), inputs)
						if err != nil {
							t.Error(err)
							return
						}
						for name, w := range want(inputs) {
							if g := got[name]; g == nil || !same(g, w) {
								t.Errorf("%d records: %s is not what the executor computes", n, name)
							}
						}
					})
				}
				group.Wait()
			})
		}
	}
}

// What a model holds does not depend on the sizes of requests.
func TestMemoryDoesNotGrowWithSizes(t *testing.T) {
	if testing.Short() {
		t.Skip("runs 100 requests of up to 3000 records")
	}
	for name, c := range map[string]struct {
		build  func(int64) (*layers.Model, []layers.Variable)
		inputs func(n int) map[string]*tensor.Tensor
	}{
		"images":    {digits, func(n int) map[string]*tensor.Tensor { return images(int64(n), 1) }},
		"sequences": {words, func(n int) map[string]*tensor.Tensor { return texts(n, 1) }},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			m, outputs := c.build(3)
			exported(t, dir, m, outputs...)
			model := open(t, dir, serving.WithWorkers(1), serving.WithMaxBatch(32))
			held := func() int64 {
				var s runtime.MemStats
				runtime.GC()
				runtime.ReadMemStats(&s)
				return int64(s.HeapAlloc)
			}
			try := func(n int) {
				if _, err := model.Predict(t.Context(), c.inputs(n)); err != nil {
					t.Fatal(err)
				}
			}
			for n := 1; n <= 64; n++ {
				try(n)
			}
			before := held()
			for n := 65; n <= 3000; n += 63 {
				try(n)
			}
			if grown := held() - before; grown > 1<<20 {
				t.Errorf("requests of up to 3000 records hold %d bytes more", grown)
			}
		})
	}
}

func TestRequestsThatDoNotFit(t *testing.T) {
	dir := t.TempDir()
	m, outputs := words(3)
	exported(t, dir, m, outputs...)
	model := open(t, dir)
	with := func(name string, v *tensor.Tensor) map[string]*tensor.Tensor {
		inputs := texts(2, 1)
		if inputs[name] = v; v == nil {
			delete(inputs, name)
		}
		return inputs
	}
	whole := func(v []int64, lod [][]int64, dims ...int64) *tensor.Tensor {
		w, err := tensor.FromSlice(v, dims...)
		if err != nil {
			t.Fatal(err)
		}
		w.SetLoD(lod)
		return w
	}
	for want, c := range map[string]struct {
		kind   fault.Kind
		inputs map[string]*tensor.Tensor
	}{
		`"age": invalid argument: got no value, want age float32[-1 1]`:       {fault.InvalidArgument, with("age", nil)},
		`"age": type mismatch: got int64[2 1]`:                                {fault.TypeMismatch, with("age", whole([]int64{1, 2}, nil, 2, 1))},
		`"age": shape mismatch: got float32[2 2]`:                             {fault.ShapeMismatch, with("age", random(1, 2, 2))},
		`"ages": invalid argument: got an input that the model does not take`: {fault.InvalidArgument, with("ages", random(1, 2, 1))},
		`"age": shape mismatch: got 3 records, want 2, as words has`:          {fault.ShapeMismatch, with("age", random(1, 3, 1))},
		`"words": shape mismatch: got 0 LoD levels`:                           {fault.ShapeMismatch, with("words", whole([]int64{1, 2}, nil, 2, 1))},
		`level 0 that ends at 3, want 2`:                                      {fault.ShapeMismatch, with("words", whole([]int64{1, 2}, [][]int64{{0, 1, 3}}, 2, 1))},
		`no rows`:                                                             {fault.InvalidArgument, map[string]*tensor.Tensor{"words": whole(nil, [][]int64{{0}}, 0, 1), "age": random(1, 0, 1)}},
		`lookup_table`:                                                        {fault.InvalidArgument, with("words", whole([]int64{1, 99}, [][]int64{{0, 1, 2}}, 2, 1))},
	} {
		_, err := model.Predict(t.Context(), c.inputs)
		if err == nil || !strings.Contains(err.Error(), want) || fault.KindOf(err) != c.kind {
			t.Errorf("got %v (%v), want %s (%v)", err, fault.KindOf(err), want, c.kind)
		}
	}
}

// A request with a wrong value fails alone, though it shares a run with others.
func TestAWrongValueFailsNobodyElse(t *testing.T) {
	dir := t.TempDir()
	m, outputs := words(3)
	exported(t, dir, m, outputs...)
	shared := make(chan serving.Batch, 1)
	model := open(t, dir, serving.WithWorkers(1), serving.WithMaxBatch(3), serving.WithMaxWait(time.Hour), serving.WithObserver(func(b serving.Batch) {
		select {
		case shared <- b:
		default:
		}
	}))
	var group sync.WaitGroup
	for i := range 3 {
		group.Go(func() {
			inputs := texts(1, 1)
			if i == 1 {
				inputs["words"].Int64s()[0] = 99
			}
			if _, err := model.Predict(t.Context(), inputs); (err != nil) != (i == 1) {
				t.Errorf("request %d: %v", i, err)
			}
		})
	}
	group.Wait() // the three are a full batch, so nobody waits for an hour
	for i := range 3 {
		group.Go(func() {
			if _, err := model.Predict(t.Context(), texts(1, uint64(i))); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
}

// A model whose rows depend on each other runs as it was asked, up to the bound on a run.
func TestAModelThatMixesRowsRunsWhole(t *testing.T) {
	dir := t.TempDir()
	m := layers.NewModel().Seed(1)
	x := layers.Data(m, "x", layers.Dims(3))
	p := exported(t, dir, m, layers.Mean(x), layers.FC(x, 2))
	want := oracle(t, p, dir)
	model := open(t, dir, serving.WithMaxBatch(4))
	for n := int64(1); n <= 5; n++ {
		inputs := map[string]*tensor.Tensor{"x": random(uint64(n), n, 3)}
		got, err := model.Predict(t.Context(), inputs)
		if n == 5 {
			if fault.KindOf(err) != fault.TooLarge {
				t.Errorf("5 rows: %v", err)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		for name, w := range want(inputs) {
			if !same(got[name], w) {
				t.Errorf("%d rows: %s is not what the executor computes", n, name)
			}
		}
	}
}

// Too many requests are refused, those that are given up leave, and a model that is closed says so.
func TestWaitingEnds(t *testing.T) {
	dir := t.TempDir()
	m, outputs := digits(1)
	exported(t, dir, m, outputs...)
	model := open(t, dir, serving.WithMaxWait(time.Hour), serving.WithMaxQueue(1))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() {
		_, err := model.Predict(ctx, images(1, 1))
		ended <- err
	}()
	for model.Waiting() == 0 {
		runtime.Gosched()
	}
	_, err := model.Predict(t.Context(), images(1, 1))
	if !errors.Is(err, serving.ErrBusy) || fault.KindOf(err) != fault.Unavailable {
		t.Errorf("beyond the bound: %v", err)
	}
	cancel()
	if err := <-ended; fault.KindOf(err) != fault.Canceled {
		t.Errorf("given up: %v", err)
	}
	if n := model.Waiting(); n != 0 {
		t.Errorf("%d requests wait", n)
	}
	if err := model.Close(); err != nil {
		t.Error(err)
	}
	if _, err := model.Predict(t.Context(), images(1, 1)); fault.KindOf(err) != fault.Canceled {
		t.Errorf("closed: %v", err)
	}
}

// Requests run on while a model is replaced again and again, and each gets the predictions of one state of the files, whether parameters lie in memory or in files.
func TestReloadDropsNoRequest(t *testing.T) {
	for name, least := range map[string]int64{"memory": 1 << 40, "files": 1} {
		t.Run(name, func(t *testing.T) { reloadDropsNoRequest(t, serving.WithTables(t.TempDir(), least)) })
	}
}

func reloadDropsNoRequest(t *testing.T, tables serving.Option) {
	dir := t.TempDir()
	write := func(seed int64) func(map[string]*tensor.Tensor) map[string]*tensor.Tensor {
		m, outputs := digits(seed)
		return oracle(t, exported(t, dir, m, outputs...), dir)
	}
	inputs := images(3, 1)
	wants := []map[string]*tensor.Tensor{write(1)(inputs)}
	model := open(t, dir, tables, serving.WithReload(time.Millisecond), serving.WithWorkers(2))
	next := write(2)(inputs)
	wants = append(wants, next)
	is := func(got, want map[string]*tensor.Tensor) bool {
		for name, w := range want {
			if !same(got[name], w) {
				return false
			}
		}
		return true
	}
	for seen := false; !seen; { // until the new parameters are in use
		got, err := model.Predict(t.Context(), inputs)
		if err != nil {
			t.Fatal(err)
		}
		if seen = is(got, wants[1]); !seen && !is(got, wants[0]) {
			t.Fatal("predictions of no state of the files")
		}
	}
	if _, times := model.Loaded(); times < 2 {
		t.Errorf("the files were read %d times", times)
	}
}

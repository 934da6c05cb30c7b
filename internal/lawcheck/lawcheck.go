// Package lawcheck is the test kit for the law: a cluster in sync mode gives the bits of the reference executor.
//
// Check runs a program on a cluster in one process: trainers and servers are executors on goroutines, and the wire is a lock. Law makes programs of the cases of package gradcheck, one or two for each op,
// so that no op lacks one.
//
// Files: lawcheck.go (Check), ops.go (Law), model.go (the program of a case), programs.go (other programs), cluster.go and wire.go (the cluster).
package lawcheck

import (
	"bytes"
	"context"
	"fmt"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/executor/reference"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
	"github.com/edl-go/edl/transpiler"
)

// dayRounds are the rounds of a day, for tables that evict by days.
const dayRounds = 2

// Check trains p on batches of rows in the reference executor and on a cluster, and returns the first difference in what is fetched or saved. It does not compare a fetched variable "loss": each
// trainer reports that of its own rows.
func Check(ctx context.Context, p *program.Program, cfg transpiler.Config, batches []executor.Feed, rows int64, fetch ...string) error {
	cfg.Fetch = fetch
	r, err := transpiler.Transpile(ctx, p, cfg)
	if err != nil {
		return err
	}
	oracle, err := reference.New(p, cfg.Trainers, executor.WithDayRounds(dayRounds))
	if err != nil {
		return err
	}
	defer oracle.Close()
	if err := oracle.Compress(cfg.CompressGradients, cfg.CompressParameters); err != nil {
		return err
	}
	oracle.Slice(r.Placement.Rows)
	c := start(ctx, r, cfg.Trainers)
	defer c.stop()
	for step, feed := range batches {
		want, err := oracle.Run(ctx, p, feed, fetch...)
		if err != nil {
			return fmt.Errorf("reference, step %d: %w", step, err)
		}
		got, err := c.step(ctx, feed, rows, fetch...)
		if err != nil {
			return fmt.Errorf("step %d: %w", step, err)
		}
		for i, name := range fetch {
			if name != "loss" && !same(got[i], want[i]) {
				return fmt.Errorf("step %d: fetched %s differs", step, name)
			}
		}
	}
	saved, err := c.saved(ctx)
	if err != nil {
		return fmt.Errorf("save: %w", err)
	}
	names := executor.Persistables(p)
	if len(saved) != len(names) {
		return fmt.Errorf("%d files for %d persistable variables", len(saved), len(names))
	}
	for _, name := range names {
		if want, _ := oracle.Scope().Find(name); !same(saved[name], want) {
			return fmt.Errorf("%s differs:\n got %v\nwant %v", name, show(saved[name]), show(want))
		}
	}
	return nil
}

func same(a, b *tensor.Tensor) bool {
	return a != nil && b != nil && bytes.Equal(tensor.AppendStream(nil, a), tensor.AppendStream(nil, b))
}

func show(t *tensor.Tensor) string {
	if t == nil {
		return "nothing"
	}
	if t.DType() == tensor.Float32 {
		return fmt.Sprint(t, t.Float32s()[:min(8, t.Len())])
	}
	return t.String()
}

package lawcheck

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/gradcheck"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
	"github.com/edl-go/edl/transpiler"
)

// rounds is how many rounds a program trains: enough for accumulators to matter.
const rounds = 3

// programRows is the number of rows, or sequences, of a batch of a program: no multiple of 2, 3 or 4.
const programRows = 7

// A Program is a model for ops that no case can have: those that initialize, update, read, move values or run blocks.
type Program struct {
	Name   string
	Build  func(m *layers.Model)           // writes a model with an optimizer
	Change func(*program.Program)          // what layers do not write; nil: nothing
	Config func(*transpiler.Config)        // beyond numbers of trainers and servers; nil: nothing
	Fetch  []string                        // beside what is saved
	Feed   func(round int64) executor.Feed // programRows rows; nil: Draw
}

// check trains a program on clusters of one and of three trainers. It returns the ops of the program and of its role programs.
func (c Program) check(ctx context.Context) (seeds []gradcheck.Seed, err error) {
	m := layers.NewModel().Seed(3)
	c.Build(m)
	p, err := m.Program()
	if err != nil {
		return nil, err
	}
	if c.Change != nil {
		c.Change(p)
	}
	var batches []executor.Feed
	random := rand.New(rand.NewPCG(1, 2))
	for round := range int64(rounds) {
		if c.Feed != nil {
			batches = append(batches, c.Feed(round))
			continue
		}
		feed, err := Draw(p, programRows, random)
		if err != nil {
			return nil, err
		}
		batches = append(batches, feed)
	}
	seeds = seedsOf(p)
	for _, trainers := range []int{1, 3} {
		cfg := transpiler.Config{Trainers: trainers, PServers: 2, MinBlockSize: 4, Fetch: c.Fetch}
		if c.Config != nil {
			c.Config(&cfg)
		}
		if err := Check(ctx, p, cfg, batches, programRows, c.Fetch...); err != nil {
			return nil, fmt.Errorf("%d trainers: %w", trainers, err)
		}
		r, err := transpiler.Transpile(ctx, p, cfg)
		if err != nil {
			return nil, err
		}
		for _, role := range r.Programs() {
			seeds = append(seeds, seedsOf(role.Program)...)
		}
	}
	return seeds, nil
}

// seedsOf returns the ops of all blocks of p and of its startup program, with variables of programRows rows where the batch is open.
func seedsOf(p *program.Program) (seeds []gradcheck.Seed) {
	blocks := slices.Clone(p.Blocks)
	if p.Startup != nil {
		blocks = append(blocks, p.Startup.Blocks...)
	}
	for _, b := range blocks {
		for _, op := range b.Ops {
			s := gradcheck.Seed{Op: op, Metas: map[string]ops.Meta{}}
			for _, name := range slices.Concat(op.InputNames(), op.OutputNames()) {
				if v, ok := b.Find(name); ok && name != program.Empty {
					meta := ops.MetaOf(v)
					meta.Dims = slices.Clone(meta.Dims)
					for axis, extent := range meta.Dims {
						if extent == program.Unknown {
							meta.Dims[axis] = programRows
						}
					}
					s.Metas[name] = meta
				}
			}
			seeds = append(seeds, s)
		}
	}
	return seeds
}

// Draw draws values for the fed variables of p: rows rows, or sequences of up to three rows. Integers and what is called a label are 0 or 1. What is called a key has ids of a table that grows.
func Draw(p *program.Program, rows int64, random *rand.Rand) (executor.Feed, error) {
	feed := executor.Feed{}
	for _, v := range p.Global().Vars() {
		if !v.NeedCheckFeed {
			continue
		}
		n, lod := rows, [][]int64(nil)
		for range v.LoDLevel {
			offsets := []int64{0}
			for range n {
				offsets = append(offsets, offsets[len(offsets)-1]+1+random.Int64N(3))
			}
			n, lod = offsets[n], append(lod, offsets)
		}
		value, err := tensor.New(v.DType, append([]int64{n}, v.Dims[1:]...)...)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", v.Name, err)
		}
		value.SetLoD(lod)
		for i := range value.Len() {
			switch {
			case strings.HasPrefix(v.Name, "key"):
				value.Int64s()[i] = []int64{-1, 1, random.Int64N(50) << 40, -random.Int64N(9)}[random.IntN(4)]
			case strings.HasPrefix(v.Name, "label") && v.DType == tensor.Float32:
				value.Float32s()[i] = float32(random.Int64N(2))
			case v.DType == tensor.Int64:
				value.Int64s()[i] = random.Int64N(2)
			default:
				value.Float32s()[i] = float32(random.NormFloat64())
			}
		}
		feed[v.Name] = value
	}
	return feed, nil
}

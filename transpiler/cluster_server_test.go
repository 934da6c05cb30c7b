package transpiler_test

import (
	"context"
	"fmt"
	"sync"

	"github.com/edl-go/edl/internal/merge"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/comm"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// server is one pserver; it implements ops.Server.
type server struct {
	cluster *cluster
	index   int
	service comm.Service
	blocks  ops.BlockRunner
	ready   chan struct{}
	once    sync.Once // closes ready
}

func (s *server) started() { s.once.Do(func() { close(s.ready) }) }

func (s *server) merge() error {
	for _, contribution := range append(s.service.Grads, s.service.States...) {
		shares := []merge.Share{}
		for rank := range s.cluster.trainers {
			if value := s.cluster.sent[s.index][contribution.Name][rank]; value != nil {
				shares = append(shares, merge.Share{Value: value, Rows: s.cluster.declared[rank]})
			}
		}
		dst, ok := s.blocks.Variable(contribution.Name)
		if !ok || len(shares) == 0 {
			return fmt.Errorf("pserver %d: nothing to merge into %s: %d shares", s.index, contribution.Name, len(shares))
		}
		how := merge.Gradients
		if contribution.Block == comm.NoBlock {
			old := dst.Clone()
			how = func(dst *tensor.Tensor, shares []merge.Share, m ops.Merge) error {
				return merge.State(dst, old, shares, m)
			}
		}
		if err := how(dst, shares, contribution.Merge); err != nil {
			return err
		}
	}
	return nil
}

func (s *server) run(ctx context.Context, step ops.Step) error {
	order := append([]program.BlockIndex{}, s.service.Prepare...)
	for _, b := range []program.BlockIndex{s.service.Global, s.service.LRDecay} {
		if b != comm.NoBlock {
			order = append(order, b)
		}
	}
	for _, b := range append(order, s.service.Optimize...) {
		if err := s.blocks.RunBlock(ctx, b, step); err != nil {
			return fmt.Errorf("pserver %d, block %d: %w", s.index, b, err)
		}
	}
	return nil
}

// Serve implements ops.Server.
func (s *server) Serve(ctx context.Context, op *program.Op, blocks ops.BlockRunner) error {
	var err error
	if s.service, err = comm.ServiceOf(op); err != nil {
		return err
	}
	s.blocks = blocks
	s.started()
	<-ctx.Done()
	return ctx.Err()
}

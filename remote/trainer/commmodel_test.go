package trainer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/remote/internal/rig"
	"github.com/edl-go/edl/tensor"
)

// servers starts n servers that hold one parameter of each size.
func servers(t *testing.T, n, trainers int, sync bool, sizes ...int64) []*rig.Server {
	list := make([]*rig.Server, n)
	for i := range list {
		cfg := rig.Config(trainers)
		cfg.Index, cfg.Servers = i, n
		list[i] = rig.Start(t, cfg, rig.SGD(i, sync, 1, sizes...))
	}
	return list
}

func commOf(rank int, sync bool, list ...*rig.Server) *Comm {
	c := &Comm{Rank: uint32(rank), Sync: sync, Deadline: time.Hour}
	for _, s := range list {
		c.Servers = append(c.Servers, s.Client)
	}
	c.Enter(rig.Identity, 0)
	return c
}

// model is what a trainer of such servers holds: parameters and gradients, by server and number.
type model struct{ params, grads [][]*tensor.Tensor }

func newModel(servers int, sizes ...int64) model {
	var m model
	for range servers {
		var p, g []*tensor.Tensor
		for _, n := range sizes {
			p, g = append(p, rig.Vector(n)), append(g, rig.Vector(n))
		}
		m.params, m.grads = append(m.params, p), append(m.grads, g)
	}
	return m
}

// each calls f with every parameter, at the same time, as the ops of a program do.
func (m model) each(f func(server, i int) error) error {
	return rig.Each(len(m.params), func(s int) error { return rig.Each(len(m.params[s]), func(i int) error { return f(s, i) }) })
}

func (m model) send(ctx context.Context, c *Comm) error {
	return m.each(func(s, i int) error {
		return c.Send(ctx, ops.Message{Name: fmt.Sprintf("w%d@GRAD", i), Server: s, Value: m.grads[s][i]})
	})
}

func (m model) recv(ctx context.Context, c *Comm) error {
	err := m.each(func(s, i int) error {
		return c.Recv(ctx, ops.Message{Name: fmt.Sprintf("w%d", i), Server: s, Value: m.params[s][i]})
	})
	return errors.Join(err, c.FetchBarrier(ctx))
}

func (m model) fill(x float32) {
	for _, list := range m.grads {
		for _, g := range list {
			for i := range g.Float32s() {
				g.Float32s()[i] = x
			}
		}
	}
}

// check reports a parameter that is not x everywhere.
func (m model) check(x float32) error {
	return m.each(func(s, i int) error {
		if at := slices.IndexFunc(m.params[s][i].Float32s(), func(v float32) bool { return v != x }); at >= 0 {
			return fmt.Errorf("element %d of w%d of server %d is %v, want %v", at, i, s, m.params[s][i].Float32s()[at], x)
		}
		return nil
	})
}

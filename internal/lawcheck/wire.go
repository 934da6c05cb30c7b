package lawcheck

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/internal/compress"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/kernel"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// wire is one trainer's side; it implements ops.Comm.
type wire struct {
	*cluster
	rank int
}

func (w *wire) Send(_ context.Context, m ops.Message) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.sent[m.Server] == nil {
		w.sent[m.Server] = map[string]map[int]*tensor.Tensor{}
	}
	if w.sent[m.Server][m.Name] == nil {
		w.sent[m.Server][m.Name] = map[int]*tensor.Tensor{}
	}
	if w.sent[m.Server][m.Name][w.rank] != nil {
		return fmt.Errorf("trainer %d sends %s twice", w.rank, m.Name)
	}
	value := m.Value.Clone()
	if m.Rows { // the server has room for all rows
		form, _ := w.servers[m.Server].blocks.Variable(m.Name)
		used, err := compress.RowsInUse(m.Value)
		if err != nil {
			return err
		}
		value = form.Clone()
		if value.DType() == tensor.Int64 {
			copy(value.Int64s(), used.Int64s())
		} else {
			copy(value.Int32s(), used.Int32s())
		}
	}
	w.sent[m.Server][m.Name][w.rank] = value
	return nil
}

func (w *wire) SendBarrier(context.Context) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	round := w.round
	from, to := w.part(w.rank)
	w.declared[w.rank] = to - from
	if len(w.declared) == len(w.trainers) {
		if err := w.advance(); err != nil {
			w.err = err
			w.changed.Broadcast()
		}
		return w.err
	}
	for w.round == round && w.err == nil {
		w.changed.Wait()
	}
	return w.err
}

// ShareTotals implements ops.TotalsSharer. Nobody waits for a trainer without rows.
func (w *wire) ShareTotals(_ context.Context, place int, own ops.Totals, _ func([]ops.Totals) (ops.Totals, error)) (all []ops.Totals, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for len(w.totals) <= place {
		w.totals = append(w.totals, map[int]ops.Totals{})
	}
	shared := w.totals[place]
	shared[w.rank] = ops.Totals{Rows: own.Rows, Over: slices.Clone(own.Over), Values: slices.Clone(own.Values)}
	w.changed.Broadcast()
	for {
		rows := int64(0)
		for _, t := range shared {
			rows += t.Rows
		}
		if w.err != nil {
			return nil, w.err
		}
		if rows == w.rows {
			break
		}
		w.changed.Wait()
	}
	for rank := range w.trainers {
		if t, ok := shared[rank]; ok {
			all = append(all, t)
		}
	}
	return all, nil
}

// Recv receives at once. An async trainer's contributions are applied before it reads.
func (w *wire) Recv(_ context.Context, m ops.Message) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.trainers) == 1 && len(w.sent) > 0 {
		w.declared[w.rank] = w.rows
		if err := w.advance(); err != nil {
			return err
		}
	}
	value, ok := w.servers[m.Server].blocks.Variable(m.Name)
	if !ok {
		return fmt.Errorf("pserver %d has no variable %s", m.Server, m.Name)
	}
	return m.Value.CopyFrom(value)
}

// FetchRows implements ops.RowFetcher.
func (w *wire) FetchRows(_ context.Context, from []ops.RowsMessage) error {
	c := w.cluster
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, m := range from {
		table, ok := c.servers[m.Server].blocks.Variable(m.Name)
		if !ok {
			return fmt.Errorf("pserver %d has no %s", m.Server, m.Name)
		}
		if m.Keys != nil {
			if err := w.fetchKeys(m, table); err != nil {
				return err
			}
			continue
		}
		width := len(m.Into) / len(m.Rows)
		for i, row := range m.Rows {
			if into := m.Into[i*width:][:width]; table.DType() == tensor.BFloat16 {
				kernel.FromBFloat16(into, tensor.Data[uint16](table)[int(row)*width:][:width])
			} else {
				copy(into, table.Float32s()[int(row)*width:])
			}
		}
	}
	return nil
}

// fetchKeys is FetchRows for rows of a table that grows.
func (w *wire) fetchKeys(m ops.RowsMessage, table *tensor.Tensor) error {
	s := w.cluster.servers[m.Server]
	for _, t := range s.service.Tables {
		if t.Name == m.Name {
			keys, _ := s.blocks.Variable(t.Keys)
			index, _ := s.blocks.Variable(t.Index)
			view, ok := t.View(keys, index)
			if !ok {
				return fmt.Errorf("pserver %d: the variables of %s are no table", m.Server, m.Name)
			}
			t.LookUp(m.Into, table, view, m.Keys)
			return nil
		}
	}
	return fmt.Errorf("pserver %d has no keys of %s", m.Server, m.Name)
}

// MergeDevices implements ops.DeviceMerger for trainers of one device.
func (w *wire) MergeDevices(_ context.Context, _ *ops.Step, all []ops.DeviceMessage) error {
	for _, m := range all {
		if err := m.Into.CopyFrom(m.Value); err != nil {
			return err
		}
	}
	return nil
}

func (w *wire) FetchBarrier(context.Context) error { return nil }

// files keeps what save ops write; it implements ops.Storage.
type files map[string]*tensor.Tensor

func (f files) Save(name string, tensors []*tensor.Tensor, overwrite bool) error {
	if len(tensors) != 1 || f[name] != nil {
		return fmt.Errorf("%d tensors in file %s, of which there is one: %v", len(tensors), name, f[name] != nil)
	}
	f[name] = tensors[0].Clone()
	return nil
}

func (f files) SaveShort(name string, t *tensor.Tensor, overwrite bool) error {
	return f.Save(name, []*tensor.Tensor{t}, overwrite)
}

func (f files) Load(string, []*tensor.Tensor) error { return errors.New("nothing is loaded here") }

// saved runs the save program on the trainer of rank 0.
func (c *cluster) saved(ctx context.Context) (files, error) {
	f := files{}
	e := executor.New(executor.WithComm(&wire{c, 0}), executor.WithScope(c.trainers[0].Scope()), executor.WithStorage(f),
		executor.WithStage(program.StageSave))
	defer e.Close()
	_, err := e.Run(ctx, c.save, nil)
	return f, err
}

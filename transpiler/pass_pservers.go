package transpiler

import (
	"slices"

	"github.com/edl-go/edl/ops/comm"
	"github.com/edl-go/edl/program"
)

// buildPServers writes one program for each server: block 0 with its variables and listen_and_serv, and the blocks that
// listen_and_serv runs in every round. A server that holds nothing serves an empty update, as in Fluid.
//
// Unlike Fluid, no block sums and scales what trainers sent: the server merges by rows, whatever the number of trainers is.
// Variables that several blocks share stand in block 0 and are persistable, so that they live from block to block; only
// those that listen_and_serv lists as slices are state that outlives a round.
func buildPServers(s *state) error {
	exchange := newNormExchange(s)
	for server := range s.cfg.PServers {
		p := program.New()
		w := &serverWriter{state: s, exchange: exchange, server: server, program: p, units: s.unitsOn(server)}
		w.service.server = server
		if err := w.write(); err != nil {
			return err
		}
		s.result.PServers = append(s.result.PServers, p)
	}
	return nil
}

// A serverWriter writes the program of one server.
type serverWriter struct {
	*state
	exchange *normExchange
	server   int
	program  *program.Program
	units    []*unit
	service  service
}

func (w *serverWriter) write() error {
	block := w.program.Global()
	for _, h := range w.held.on(w.server) {
		block.EnsureVar(h.at)
	}
	for _, u := range w.units {
		for _, name := range u.group.contributions {
			w.share(w.at(u, name))
		}
	}
	if err := w.writeRates(); err != nil {
		return err
	}
	if err := w.writeNorms(); err != nil {
		return err
	}
	if err := w.writeUpdates(); err != nil {
		return err
	}
	for _, f := range w.forward {
		if f.server == w.server {
			w.service.states = append(w.service.states, f)
		}
	}
	block.Append(w.service.op(w.cfg.Mode, w.held.on(w.server)))
	return nil
}

// share declares a variable in block 0, for all blocks.
func (w *serverWriter) share(v program.Var) {
	v.Persistable, v.IsParameter = true, false
	w.program.Global().EnsureVar(v)
}

// newBlock appends a block that finds variables in block 0.
func (w *serverWriter) newBlock() (*program.Block, program.BlockIndex) {
	b := w.program.NewBlock(w.program.Global())
	return b, program.BlockIndex(b.Index)
}

// writeRates writes the learning-rate block.
func (w *serverWriter) writeRates() error {
	w.service.rates = comm.NoBlock
	if !w.isActive(w.server) {
		return nil
	}
	var b *program.Block
	for _, n := range w.nodes {
		if n.duty != dutyRate {
			continue
		}
		if b == nil {
			b, w.service.rates = w.newBlock()
		}
		for _, name := range slices.Concat(n.reads, n.writes) {
			if !w.constants[name] {
				w.share(w.variable(name).Copy(""))
			}
		}
		w.copyOp(b, n, nil)
	}
	return nil
}

// writeUpdates writes one optimize block per unit.
func (w *serverWriter) writeUpdates() error {
	for _, u := range w.units {
		b, index := w.newBlock()
		_, update := u.group.prepare()
		for _, n := range update {
			w.copyOp(b, n, u)
		}
		w.service.updates = append(w.service.updates, index)
		for _, name := range u.group.contributions {
			w.service.gradients = append(w.service.gradients, gradient{u.name(name), index, w.merge})
		}
	}
	if len(w.units) == 0 {
		_, index := w.newBlock()
		w.service.updates = append(w.service.updates, index)
	}
	return nil
}

package program

import "maps"

// Clone returns a copy that shares nothing with p, with a copy of the startup program.
func (p *Program) Clone() *Program {
	c := &Program{Version: p.Version, counters: maps.Clone(p.counters), rest: p.rest}
	if p.Startup != nil {
		c.Startup = p.Startup.Clone()
	}
	for _, b := range p.Blocks {
		c.Blocks = append(c.Blocks, b.cloneInto(c))
	}
	return c
}

func (b *Block) cloneInto(p *Program) *Block {
	c := *b
	c.program = p
	c.order = append([]string(nil), b.order...)
	c.vars = make(map[string]*Var, len(b.vars))
	for name, v := range b.vars {
		c.vars[name] = v.clone()
	}
	c.Ops = make([]*Op, 0, len(b.Ops))
	for _, op := range b.Ops {
		c.Ops = append(c.Ops, op.Clone())
	}
	return &c
}

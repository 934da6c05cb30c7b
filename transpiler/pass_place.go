package transpiler

// assignServers places units and forward state, and describes the result.
func assignServers(s *state) error {
	var items []item
	for _, u := range s.units {
		items = append(items, item{s.unitKey(u), u.bytes})
	}
	for _, f := range s.forward {
		items = append(items, item{f.name, bytesOf(s.variable(f.name))})
	}
	servers := place(items, s.cfg.PServers, s.cfg.SplitMethod)
	for i, u := range s.units {
		u.server = servers[i]
	}
	for i, f := range s.forward {
		f.server = servers[len(s.units)+i]
	}
	s.result.Placement = s.placement()
	return nil
}

// unitKey is the name that HashName places a unit by: that of its first parameter at the server.
func (s *state) unitKey(u *unit) string {
	for _, names := range [][]string{u.group.params, u.group.accumulators, u.group.temporaries} {
		if len(names) > 0 {
			return u.name(names[0])
		}
	}
	return ""
}

func (s *state) placement() Placement {
	p := Placement{Loads: make([]Load, s.cfg.PServers)}
	for i := range p.Loads {
		p.Loads[i].Server = i
	}
	add := func(slice Slice) {
		p.Slices = append(p.Slices, slice)
		p.Loads[slice.Server].Bytes += slice.Bytes
		p.Loads[slice.Server].Slices++
	}
	for _, u := range s.units {
		for i, param := range u.group.params {
			v := s.at(u, param)
			slice := Slice{Param: param, Grad: u.group.gradientOf(param), Block: u.block, Name: v.Name, FirstRow: u.first, Rows: rowsOf(v.Dims),
				Server: u.server}
			if slice.Grad != "" {
				slice.GradName = u.name(slice.Grad)
			}
			if i == 0 {
				slice.Bytes = u.bytes - s.otherBytes(u)
			} else {
				slice.Bytes = bytesOf(&v)
			}
			add(slice)
		}
	}
	for _, f := range s.forward {
		v := s.variable(f.name)
		add(Slice{Param: f.name, Grad: f.name, Block: Whole, Name: f.name, GradName: f.name, Rows: rowsOf(v.Dims), Server: f.server, Bytes: bytesOf(v)})
	}
	return p
}

// otherBytes returns the bytes of all parameters of a unit but the first. The accumulators of a unit count with its first
// parameter, since nothing says which belongs to which.
func (s *state) otherBytes(u *unit) int64 {
	var bytes int64
	for _, name := range u.group.params[1:] {
		v := s.at(u, name)
		bytes += bytesOf(&v)
	}
	return bytes
}

// rowsOf is the extent of axis 0; a scalar is one row.
func rowsOf(dims []int64) int64 {
	if len(dims) == 0 {
		return 1
	}
	return dims[0]
}

package pserver

// Buffers returns how many buffers are free for contributions.
func (s *Server) Buffers() int {
	s.core.Lock()
	defer s.core.Unlock()
	n := 0
	for _, free := range s.core.inbox.free {
		n += len(free)
	}
	return n
}

package pserver

// Buffers returns how many buffers are free for contributions.
func (s *Server) Buffers() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, free := range s.inbox.free {
		n += len(free)
	}
	return n
}

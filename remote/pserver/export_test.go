package pserver

import "time"

// Held is how long a round has waited for the copies of the last cut.
func (s *Server) Held() time.Duration { return time.Duration(s.cuts.held.Load()) }

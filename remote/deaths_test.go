package remote_test

import "syscall"

// Deaths of a job whose trainers have paused in the middle of a step. Each returns who was struck.
var deaths = map[string]func(s *struck) string{
	// Trap 3: a trainer is killed when it has sent a part of its gradients.
	"trainer while sending": func(s *struck) string {
		s.resume("trainer-0", s.waitPaused("trainer-0"))
		s.waitPaused("trainer-1")
		s.signal("trainer-1", syscall.SIGKILL)
		return "trainer 1"
	},
	// Trap 3: a trainer is killed when it has declared its contribution and waits for new parameters.
	"trainer while receiving": func(s *struck) string {
		s.resume("trainer-0", s.waitPaused("trainer-0"))
		other := s.waitPaused("trainer-1")
		waitsFor(s.t, s.server(0), s.id, "trainer 1")
		s.signal("trainer-0", syscall.SIGKILL)
		s.resume("trainer-1", other)
		return "trainer 0"
	},
	// Trap 4, as far as no checkpoint brings parameters back: a pserver is killed in the middle of a round.
	"pserver": func(s *struck) string {
		other := s.waitPaused("trainer-0")
		s.resume("trainer-1", s.waitPaused("trainer-1"))
		s.signal("pserver-0", syscall.SIGKILL)
		s.resume("trainer-0", other)
		return "pserver 0"
	},
	// Nobody hands out data any more.
	"coordinator": func(s *struck) string {
		for _, name := range []string{"trainer-0", "trainer-1"} {
			s.resume(name, s.waitPaused(name))
		}
		s.signal("coordinator", syscall.SIGKILL)
		return "coordinator"
	},
	// A process that has stopped does not renew its lease.
	"stopped trainer": func(s *struck) string {
		s.resume("trainer-0", s.waitPaused("trainer-0"))
		s.waitPaused("trainer-1")
		s.signal("trainer-1", syscall.SIGSTOP)
		return "trainer 1"
	},
	"stopped pserver": func(s *struck) string {
		for _, name := range []string{"trainer-0", "trainer-1"} {
			s.resume(name, s.waitPaused(name))
		}
		s.signal("pserver-1", syscall.SIGSTOP)
		return "pserver 1"
	},
	"stopped coordinator": func(s *struck) string {
		for _, name := range []string{"trainer-0", "trainer-1"} {
			s.resume(name, s.waitPaused(name))
		}
		s.signal("coordinator", syscall.SIGSTOP)
		return "coordinator"
	},
}

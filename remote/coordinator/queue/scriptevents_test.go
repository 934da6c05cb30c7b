package queue_test

import (
	"strconv"

	"github.com/edl-go/edl/internal/script"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/coordinator/queue"
)

// event makes the event of a command.
func (s *stage) event(c script.Command) queue.Event {
	rank, pass := s.number(c, "rank", "0"), int32(s.number(c, "pass", "0"))
	incarnation := uint64(s.number(c, "incarnation", "1"))
	task := &rpc.Task{Id: int64(s.number(c, "task", "0")), Epoch: uint32(s.number(c, "dispatch", "1")), Pass: pass}
	committed := rangesOf(c.Arg("committed", ""))
	switch c.Name {
	case "get":
		request := s.number(c, "request", strconv.Itoa(s.requests[rank]))
		s.requests[rank] = max(s.requests[rank], request+1)
		return queue.Get{Rank: rank, Incarnation: incarnation, Request: uint64(request), Pass: pass, Position: int64(s.number(c, "position", "0")),
			Records: int64(s.number(c, "records", "0")), Round: uint64(s.number(c, "round", "0"))}
	case "finish":
		return queue.Finish{Rank: rank, Incarnation: incarnation, Task: task}
	case "fail":
		return queue.Fail{Rank: rank, Incarnation: incarnation, Task: task, Reason: c.Arg("reason", "broken"), Committed: committed}
	case "timeout":
		return queue.Timeout{Pass: pass, Task: task.Id, Epoch: task.Epoch, Committed: committed}
	case "lost", "drain":
		return queue.Lost{Rank: rank, Incarnation: incarnation, Drained: c.Name == "drain", Pass: pass, Committed: committed,
			Reason: c.Arg("reason", c.Name)}
	case "files":
		return queue.AddFiles{Files: filesOf(c.Arg("files", ""), false)}
	case "end":
		return queue.EndOfFiles{}
	case "regroup":
		return queue.Regroup{Round: uint64(s.number(c, "round", "0")), Pass: pass, Committed: committed}
	}
	s.Fatalf("unknown command %s", c.Name)
	return nil
}

func (s *stage) number(c script.Command, name, otherwise string) int {
	n, err := strconv.Atoi(c.Arg(name, otherwise))
	if err != nil {
		s.Fatal(err)
	}
	return n
}

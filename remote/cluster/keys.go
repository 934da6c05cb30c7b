package cluster

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/job"
)

// root is where all keys of EDL are.
const root = "/edl/"

// nodesPrefix is where the nodes of the cluster are, whatever the prefix of the job.
const nodesPrefix = root + "nodes/"

// Keys of a job, below its prefix. What Lost compares, the key of a member and its mark, lies together, so that one watch tells both in order.
const (
	desiredKey  = "/ps_desired"
	wantedKey   = "/trainers_desired"
	serversKey  = "/ps/"
	lockKey     = "/master/lock"
	addressKey  = "/master/addr"
	trainersKey = "/trainer/"
	commitKey   = "/task_queues" // names the last transaction of State
	stateKey    = "/task_queues/"
	maxMembers  = 1 << 16 // pservers or trainers of one job
	maxPrefix   = 512     // bytes
)

// roleKeys are where the members of each role are, and where their marks.
var roleKeys = []string{"/master", "/ps", "/trainer"}

// Prefix returns the key prefix of a job.
func Prefix(job string) string { return root + job }

var (
	legalPrefix = regexp.MustCompile(`^(/[A-Za-z0-9._-]+)+$`)
	legalID     = regexp.MustCompile(`^[A-Za-z0-9._:-]{1,128}$`)
)

// checkPrefix refuses prefixes whose keys would meet those of others.
func checkPrefix(prefix string) error {
	if len(prefix) > maxPrefix || !legalPrefix.MatchString(prefix) || strings.HasPrefix(prefix+"/", nodesPrefix) {
		return fault.E(fault.InvalidArgument, fault.At("cluster"), fault.Got("key prefix "+fault.Quote(prefix)),
			fault.Want("/edl/<job>, of letters, digits, '.', '_' and '-', outside of "+nodesPrefix))
	}
	return nil
}

// memberKey returns where a member announces itself, below the prefix of the job.
func memberKey(m Member) string {
	switch m.Role {
	case job.Role_PSERVER:
		return serversKey + strconv.Itoa(m.Index)
	case job.Role_TRAINER:
		return trainersKey + strconv.Itoa(m.Index)
	}
	return lockKey
}

// memberOf is the inverse of memberKey.
func memberOf(key string) (Member, bool) {
	if key == lockKey {
		return Member{Role: job.Role_COORDINATOR}, true
	}
	m := Member{Role: job.Role_PSERVER}
	digits, ok := strings.CutPrefix(key, serversKey)
	if !ok {
		m.Role = job.Role_TRAINER
		if digits, ok = strings.CutPrefix(key, trainersKey); !ok {
			return Member{}, false
		}
	}
	index, err := strconv.ParseUint(digits, 10, 16)
	m.Index = int(index)
	return m, err == nil && memberKey(m) == key
}

// markKey returns where it is kept what became of the holders of a member's key.
func markKey(m Member) string {
	switch m.Role {
	case job.Role_PSERVER:
		return "/ps_mark/" + strconv.Itoa(m.Index)
	case job.Role_TRAINER:
		return "/trainer_mark/" + strconv.Itoa(m.Index)
	}
	return "/master_mark/lock"
}

// markOf is the inverse of markKey.
func markOf(key string) (Member, bool) {
	role, name, ok := strings.Cut(key, "_mark/")
	if !ok {
		return Member{}, false
	}
	return memberOf(role + "/" + name)
}

// A mark says what became of the holders of a member's key, and outlives them all. While the key is absent, joined tells a lost holder from one that
// left.
type mark struct {
	joined bool // the last holder has not left in order
	losses int  // holders before the last one that were lost
}

const (
	markedJoined = "joined"
	markedLeft   = "left"
)

// String is what is kept: "joined 2".
func (m mark) String() string {
	if m.joined {
		return fmt.Sprint(markedJoined, " ", m.losses)
	}
	return fmt.Sprint(markedLeft, " ", m.losses)
}

// markIn reads a mark. What is not one is the mark of a member that never was.
func markIn(text string) mark {
	how, digits, _ := strings.Cut(text, " ")
	losses, err := strconv.Atoi(digits)
	if err != nil || losses < 0 {
		return mark{}
	}
	return mark{joined: how == markedJoined, losses: losses}
}

// after returns how many holders have been lost by the time that there is no key.
func (m mark) after() int {
	if m.joined {
		return m.losses + 1
	}
	return m.losses
}

// Package generation decides who trains a job together: the membership of a job, generation after generation. It is pure: time is an argument,
// messages are events, and what is to be done comes back as effects that the coordinator carries out.
//
// A change of the members runs through phases. The servers are frozen, so that nothing of the old generation counts any more and each tells how far
// it is; Decide says at which round all of them go on; the members of the next generation are gathered; the generation is made durable; the
// servers resume with it; what those who are gone had under way is settled; then the trainers that wait are answered. What happens while a change is
// under way is folded into it as long as its members are not fixed, and into the next one afterwards.
//
// In async mode nobody stops or has to join again, because members do not share rounds. The servers are asked only when a member is gone: it may have
// completed its work before. So may a member of a sync job; and where all have, the job has ended well, although nobody has said so.
package generation

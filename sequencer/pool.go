package sequencer

import (
	"net/netip"

	"github.com/daybook-ct/daybook/internal/incident"
	"github.com/daybook-ct/daybook/tlog"
)

// pool is one round's admissions. Log.pool says what guards it until the round
// closes it; it is read-only afterwards.
type pool struct {
	limit int // 0 is no limit
	byKey map[tlog.Key]*Ticket
	// order holds the tickets as they were admitted, with those evicted since,
	// which is what makes an eviction cheap. Bound: admissions of one interval.
	order []*Ticket
	low   class
	high  class
}

func newPool(limit int) *pool {
	return &pool{limit: limit, byKey: make(map[tlog.Key]*Ticket, limit)}
}

func (p *pool) class(pr Priority) *class {
	if pr == Low {
		return &p.low
	}
	return &p.high
}

// room decides whether an entry of this priority and submitter may enter: ok is false if the pool is full and holds
// nothing that it may displace; otherwise victim is the ticket that has to give
// way, nil while there is space. The pool is not changed.
//
// Any low entry gives way to a high one. Within a class, the submitter that
// holds most gives way to one that would still hold less afterwards, which
// approaches max-min fairness and cannot go back and forth. The newest entry of
// the one who gives way goes: those who wait longest stay.
func (p *pool) room(pr Priority, submitter netip.Prefix) (victim *Ticket, ok bool) {
	if p.limit == 0 || len(p.byKey) < p.limit {
		return nil, true
	}
	if incident.Off(incident.Fairness) {
		return nil, false
	}
	if pr == High {
		if v := p.low.heaviest(); v != nil {
			return v.newest(), true
		}
	}
	c := p.class(pr)
	if v := c.heaviest(); v != nil && v.count() > c.held(submitter)+1 {
		return v.newest(), true
	}
	return nil, false
}

// admit adds a ticket, which must have room.
func (p *pool) admit(t *Ticket) {
	p.byKey[t.sub.Entry.Key()] = t
	p.order = append(p.order, t)
	p.class(t.sub.Priority).add(t)
}

// evict removes the victim that room has chosen; the caller resolves it. It
// leaves the index at once, so that a resubmission is judged afresh.
func (p *pool) evict(victim *Ticket) {
	delete(p.byKey, victim.sub.Entry.Key())
	victim.evicted = true
	p.class(victim.sub.Priority).removeNewest(victim.sub.Submitter)
}

// tickets returns what is left of the admissions, in their order.
func (p *pool) tickets() []*Ticket {
	left := make([]*Ticket, 0, len(p.byKey))
	for _, t := range p.order {
		if !t.evicted {
			left = append(left, t)
		}
	}
	return left
}

// class keeps the entries of one priority by submitter, so that the one who
// holds most is found in constant time.
type class struct {
	holders map[netip.Prefix]*holder
	// byCount[n] lists the holders of n entries; byCount[0] is unused.
	// The last list is never empty.
	byCount []holderList
}

// holder is a submitter and its tickets, oldest first.
type holder struct {
	submitter  netip.Prefix
	tickets    []*Ticket
	prev, next *holder // in the list of its count
}

func (h *holder) count() int      { return len(h.tickets) }
func (h *holder) newest() *Ticket { return h.tickets[len(h.tickets)-1] }

// holderList is a doubly linked list. New members go to the front, and the
// heaviest is taken from the front, so the latest to become heaviest gives way.
type holderList struct{ front *holder }

func (l *holderList) push(h *holder) {
	h.prev, h.next = nil, l.front
	if l.front != nil {
		l.front.prev = h
	}
	l.front = h
}

func (l *holderList) remove(h *holder) {
	if h.prev != nil {
		h.prev.next = h.next
	} else {
		l.front = h.next
	}
	if h.next != nil {
		h.next.prev = h.prev
	}
}

func (c *class) heaviest() *holder {
	if len(c.byCount) == 0 {
		return nil
	}
	return c.byCount[len(c.byCount)-1].front
}

func (c *class) held(submitter netip.Prefix) int {
	if h := c.holders[submitter]; h != nil {
		return h.count()
	}
	return 0
}

func (c *class) add(t *Ticket) {
	h := c.holders[t.sub.Submitter]
	if h == nil {
		h = &holder{submitter: t.sub.Submitter}
		if c.holders == nil {
			c.holders = make(map[netip.Prefix]*holder)
		}
		c.holders[t.sub.Submitter] = h
	} else {
		c.byCount[h.count()].remove(h)
	}
	h.tickets = append(h.tickets, t)
	for len(c.byCount) <= h.count() {
		c.byCount = append(c.byCount, holderList{})
	}
	c.byCount[h.count()].push(h)
}

func (c *class) removeNewest(submitter netip.Prefix) {
	h := c.holders[submitter]
	c.byCount[h.count()].remove(h)
	h.tickets = h.tickets[:h.count()-1]
	if h.count() == 0 {
		delete(c.holders, submitter)
	} else {
		c.byCount[h.count()].push(h)
	}
	for len(c.byCount) > 0 && c.byCount[len(c.byCount)-1].front == nil {
		c.byCount = c.byCount[:len(c.byCount)-1]
	}
}

//! Quota arithmetic of one cohort tree by definition. What is configured is summed up once for each
//! tree, what is used anew for every question. Knows no workloads; who is charged is `mod.rs`.

use sluice_engine::{Amount, ClusterQueueName, CohortName, FlavorName, Quota, ResourceName};

pub(crate) type Cell = (FlavorName, ResourceName);

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Node {
    Cohort(CohortName),
    Queue(ClusterQueueName),
}

/// What is charged, by node and cell. Only queues are charged directly.
#[derive(Clone, Debug)]
pub(crate) struct View(Vec<Vec<i128>>);

/// Amounts above zero by cell.
pub(crate) type Charge = std::collections::BTreeMap<usize, i128>;

/// A tree as it is configured. Nodes and cells are told apart by their numbers.
#[derive(Clone, Debug)]
pub(crate) struct Tree {
    pub(crate) nodes: Vec<Member>,
    pub(crate) cells: Vec<Cell>,
}

#[derive(Clone, Debug)]
pub(crate) struct Member {
    pub(crate) name: Node,
    pub(crate) parent: Option<usize>,
    pub(crate) children: Vec<usize>,
    /// By cell, clamped.
    pub(crate) quota: Vec<Quota>,
    /// In thousandths.
    pub(crate) weight: i128,
    /// By cell: what it has with all that is lent to it, and what of that it doesn't lend.
    pub(crate) subtree: Vec<i128>,
    pub(crate) guaranteed: Vec<i128>,
}

pub(crate) fn clamp(amount: Amount) -> i128 {
    amount.get().clamp(0, Amount::LIMIT.get())
}

impl Tree {
    pub(crate) fn queue(&self, name: &ClusterQueueName) -> Option<usize> {
        let named = |node: &Member| matches!(&node.name, Node::Queue(queue) if queue == name);
        self.nodes.iter().position(named)
    }

    pub(crate) fn cell(&self, cell: &Cell) -> usize {
        self.cells.iter().position(|known| known == cell).unwrap()
    }

    pub(crate) fn nothing(&self) -> View {
        View(vec![vec![0; self.cells.len()]; self.nodes.len()])
    }

    /// How many levels are below a node.
    pub(crate) fn height(&self, node: usize) -> usize {
        let children = self.nodes[node].children.iter();
        children
            .map(|child| self.height(*child) + 1)
            .max()
            .unwrap_or(0)
    }

    /// From a node up to its root.
    pub(crate) fn path(&self, node: usize) -> Vec<usize> {
        std::iter::successors(Some(node), |node| self.nodes[*node].parent).collect()
    }

    /// Sums up what the nodes have, from the leaves to the root.
    pub(crate) fn sum_up(&mut self, node: usize) {
        for child in self.nodes[node].children.clone() {
            self.sum_up(child);
        }
        for cell in 0..self.cells.len() {
            let quota = self.nodes[node].quota[cell];
            let children = self.nodes[node].children.iter();
            let lent =
                children.map(|child| self.subtree(*child, cell) - self.guaranteed(*child, cell));
            let subtree = clamp(quota.nominal) + lent.sum::<i128>();
            let limit = quota.lending_limit.map(clamp);
            self.nodes[node].subtree.push(subtree);
            self.nodes[node]
                .guaranteed
                .push(limit.map_or(0, |limit| (subtree - limit).max(0)));
        }
    }

    pub(crate) fn subtree(&self, node: usize, cell: usize) -> i128 {
        self.nodes[node].subtree[cell]
    }

    fn guaranteed(&self, node: usize, cell: usize) -> i128 {
        self.nodes[node].guaranteed[cell]
    }

    pub(crate) fn usage(&self, view: &View, node: usize, cell: usize) -> i128 {
        let member = &self.nodes[node];
        if let Node::Queue(_) = member.name {
            return view.0[node][cell];
        }
        let above =
            |child: &usize| (self.usage(view, *child, cell) - self.guaranteed(*child, cell)).max(0);
        member.children.iter().map(above).sum()
    }

    /// What a node may use at most; none if nothing limits it here.
    fn ceiling(&self, node: usize, cell: usize) -> Option<i128> {
        let limit = match self.nodes[node].parent {
            None => Some(0),
            Some(_) => self.nodes[node].quota[cell].borrowing_limit.map(clamp),
        };
        limit.map(|limit| self.subtree(node, cell) + limit)
    }

    /// Whether each node whose usage this would raise stays within what it may use.
    pub(crate) fn fits(&self, view: &View, queue: usize, cell: usize, amount: i128) -> bool {
        let mut with = view.clone();
        with.0[queue][cell] += amount;
        self.path(queue).into_iter().all(|node| {
            let after = self.usage(&with, node, cell);
            let raised = self.usage(view, node, cell) < after;
            let ceiling = self.ceiling(node, cell);
            !raised || ceiling.is_none_or(|ceiling| after <= ceiling)
        })
    }

    pub(crate) fn all_fit(&self, view: &View, queue: usize, charge: &Charge) -> bool {
        (charge.iter()).all(|(cell, amount)| self.fits(view, queue, *cell, *amount))
    }

    /// How far up this charge would borrow: the most levels to the first node that stays within its own.
    pub(crate) fn borrows_from(&self, view: &View, queue: usize, charge: &Charge) -> usize {
        let with = view.with(queue, charge);
        let path = self.path(queue);
        let distance = |cell: usize| {
            let above = path
                .iter()
                .take_while(|node| self.is_above(&with, **node, [cell]));
            above.count()
        };
        let charged = charge.iter().filter(|(_, amount)| **amount > 0);
        charged.map(|(cell, _)| distance(*cell)).max().unwrap_or(0)
    }

    /// Whether a node uses more than its own of any of these cells.
    pub(crate) fn is_above(
        &self,
        view: &View,
        node: usize,
        cells: impl IntoIterator<Item = usize>,
    ) -> bool {
        cells
            .into_iter()
            .any(|cell| self.usage(view, node, cell) > self.subtree(node, cell))
    }

    /// The largest charge that would fit at a node if nothing were used.
    pub(crate) fn potential(&self, node: usize, cell: usize) -> i128 {
        let mut kept_below = 0;
        let mut most = i128::MAX;
        for node in self.path(node) {
            if let Some(ceiling) = self.ceiling(node, cell) {
                most = most.min(kept_below + ceiling);
            }
            kept_below += self.guaranteed(node, cell);
        }
        most
    }

    /// The dominant share of a node of what its parent could lend it, weighted.
    pub(crate) fn share(&self, view: &View, node: usize) -> i128 {
        let Some(parent) = self.nodes[node].parent else {
            return 0;
        };
        let mut share = 0;
        for (_, resource) in &self.cells {
            let cells = || (0..self.cells.len()).filter(|cell| self.cells[*cell].1 == *resource);
            let above = |cell| (self.usage(view, node, cell) - self.subtree(node, cell)).max(0);
            let borrowed: i128 = cells().map(above).sum();
            let lendable: i128 = cells().map(|cell| self.potential(parent, cell)).sum();
            // Of what nobody can lend any more, nothing is anybody's due.
            if borrowed > 0 && lendable != 0 {
                share = share.max(part(borrowed, lendable));
            }
        }
        weighted(share, self.nodes[node].weight)
    }
}

/// A part of a whole, to 24 digits behind the point.
pub(crate) fn part(part: i128, whole: i128) -> i128 {
    let (mut digits, mut rest) = (part / whole, part % whole);
    for _ in 0..24 {
        digits = digits.saturating_mul(10).saturating_add(rest * 10 / whole);
        rest = rest * 10 % whole;
    }
    digits.min(i128::MAX - 1)
}

/// Too much stays too much, whatever its weight. Those that are due nothing come last, in order.
pub(crate) fn weighted(part: i128, thousandths: i128) -> i128 {
    match (part, thousandths) {
        (0, _) => 0,
        (i128::MAX, _) => i128::MAX,
        (_, 0) => (i128::MAX / 2).saturating_add(part),
        _ => (part / thousandths).min(i128::MAX / 2 - 1),
    }
}

impl View {
    pub(crate) fn add(&mut self, queue: usize, charge: &Charge) {
        for (cell, amount) in charge {
            self.0[queue][*cell] += amount;
        }
    }

    pub(crate) fn take(&mut self, queue: usize, charge: &Charge) {
        for (cell, amount) in charge {
            self.0[queue][*cell] -= amount;
        }
    }

    pub(crate) fn with(&self, queue: usize, charge: &Charge) -> Self {
        let mut view = self.clone();
        view.add(queue, charge);
        view
    }

    pub(crate) fn without(&self, queue: usize, charge: &Charge) -> Self {
        let mut view = self.clone();
        view.take(queue, charge);
        view
    }
}

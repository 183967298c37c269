//! What an operator can set.

use polylet_sdk::{Config, Policy};

/// Weights are percent: whole numbers are enough, and need no floating point.
const PERCENT: std::ops::RangeInclusive<i64> = 1..=10_000;

/// The policy, as its configuration makes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TenantEviction {
    /// The label whose value is the tenant; without one, the tenant is the namespace.
    pub(crate) tenant_label: Option<String>,
    /// Tenants and their weights, in percent.
    weights: Vec<(String, u64)>,
    /// The weight of every other tenant, in percent.
    default_weight: u64,
}

impl TenantEviction {
    /// The weight of a tenant in thousandths, and that of all others for a pod without one.
    pub(crate) fn weight(&self, tenant: Option<&str>) -> u64 {
        let of_tenant = |tenant| self.weights.iter().find(|(name, _)| name == tenant).map(|(_, weight)| *weight);
        tenant.and_then(of_tenant).unwrap_or(self.default_weight) * 10
    }
}

impl Policy for TenantEviction {
    const NAME: &str = "tenant-eviction";
    const VERSION: &str = env!("CARGO_PKG_VERSION");
    const SUMMARY: &str = "Evicts by usage over request, weighted by tenant.";
    const CONFIG_SCHEMA: Option<&str> = Some(include_str!("../config.schema.json"));

    fn configure(config: &Config) -> Result<Self, String> {
        let fields = config.fields()?;
        fields.only(&["tenantLabel", "weights", "defaultWeight"])?;
        let tenant_label = fields.text("tenantLabel")?.map(str::to_owned);
        if tenant_label.as_deref() == Some("") {
            return Err(fields.wrong("tenantLabel", "the key of a label"));
        }
        let mut weights = Vec::new();
        if let Some(tenants) = fields.object("weights")? {
            for tenant in tenants.names() {
                let Some(weight) = tenants.integer(tenant, PERCENT)? else {
                    return Err(tenants.wrong(tenant, "a weight in percent"));
                };
                weights.push((tenant.to_owned(), weight.unsigned_abs()));
            }
        }
        let default_weight = fields.integer("defaultWeight", PERCENT)?.map_or(100, i64::unsigned_abs);
        Ok(Self { tenant_label, weights, default_weight })
    }
}

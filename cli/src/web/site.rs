//! What this server is called: the hosts that requests may name, and the origin that the page has by each. Pure.

use std::str::FromStr;

use http::Uri;

/// Names of the machine itself. What is asked by them passes no network.
const LOOPBACK: [&str; 3] = ["localhost", "127.0.0.1", "[::1]"];

/// The names of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Site {
    /// The header Host, and the origin of the page where a browser sends that.
    names: Vec<(String, String)>,
}

impl Site {
    /// A server on this port of loopback.
    pub fn loopback(port: u16) -> Self {
        let names = ["127.0.0.1", "localhost"].map(|host| {
            let host = format!("{host}:{port}");
            let origin = format!("http://{host}");
            (host, origin)
        });
        Self {
            names: names.into(),
        }
    }

    /// The origin of the page for requests to this host; none if it is another server's.
    pub fn origin(&self, host: &str) -> Option<&str> {
        let mut names = self.names.iter();
        let found = names.find(|(name, _)| name.eq_ignore_ascii_case(host));
        found.map(|(_, origin)| origin.as_str())
    }

    /// The address of the page, without what follows the host.
    pub fn address(&self) -> &str {
        self.names.first().map_or("", |(_, origin)| origin)
    }

    /// Whether browsers reach it by TLS alone.
    pub fn is_https(&self) -> bool {
        self.address().starts_with("https://")
    }
}

/// From the URL that browsers open.
impl FromStr for Site {
    type Err = String;

    fn from_str(url: &str) -> Result<Self, String> {
        const FORM: &str = "must be a URL such as https://sluice.example.com";
        let url: Uri = url.parse().map_err(|error| format!("{FORM}: {error}"))?;
        let (Some(scheme), Some(authority)) = (url.scheme_str(), url.authority()) else {
            return Err(FORM.to_owned());
        };
        if authority.as_str().contains('@') {
            return Err("must not name a user".to_owned());
        }
        if url.path() != "/" || url.query().is_some() {
            return Err(
                "must have nothing behind the host: the page needs a host of its own".to_owned(),
            );
        }
        let host = authority.host().to_ascii_lowercase();
        if scheme == "http" && !LOOPBACK.contains(&host.as_str()) {
            return Err(format!(
                "must begin with https://, unless the host is one of {}: tokens would pass in the clear",
                LOOPBACK.join(", ")
            ));
        }
        let usual = match scheme {
            "https" => 443,
            "http" => 80,
            _ => return Err(FORM.to_owned()),
        };
        let port = authority.port_u16().unwrap_or(usual);
        let with_port = format!("{host}:{port}");
        // Browsers leave the usual port out; a proxy may write it.
        let names = if port == usual {
            let origin = format!("{scheme}://{host}");
            vec![(host, origin.clone()), (with_port, origin)]
        } else {
            let origin = format!("{scheme}://{with_port}");
            vec![(with_port, origin)]
        };
        Ok(Self { names })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_site_is_known_by_its_host_and_no_other() {
        let site: Site = "https://Sluice.example.com/".parse().unwrap();
        let origin = Some("https://sluice.example.com");
        for host in ["sluice.example.com", "sluice.example.com:443"] {
            assert_eq!(site.origin(host), origin, "{host}");
        }
        for host in ["", "example.com", "sluice.example.com:80", "10.0.0.1:8443"] {
            assert_eq!(site.origin(host), None, "{host}");
        }
        assert!(site.is_https());
        let site: Site = "http://localhost:8080".parse().unwrap();
        assert_eq!(site.origin("localhost:8080"), Some("http://localhost:8080"));
        assert_eq!(site.origin("localhost"), None);
        assert!(!site.is_https());
    }

    #[test]
    fn a_site_that_can_not_be_served_is_refused() {
        for (url, told) in [
            ("sluice.example.com", "must be a URL such as"),
            ("ftp://sluice.example.com", "must be a URL such as"),
            ("https://", "must be a URL such as"),
            ("https://a@sluice.example.com", "must not name a user"),
            ("https://example.com/sluice", "nothing behind the host"),
            ("https://example.com/?a", "nothing behind the host"),
            ("http://sluice.example.com", "must begin with https://"),
        ] {
            let refused = Site::from_str(url).unwrap_err();
            assert!(refused.contains(told), "{url}: {refused}");
        }
    }
}

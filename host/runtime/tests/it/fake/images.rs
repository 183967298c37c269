//! `ImageService` of the fake.

use image_service_server::ImageService;

use super::*;

#[tonic::async_trait]
impl ImageService for Fake {
    async fn image_status(&self, q: Request<ImageStatusRequest>) -> Result<Response<ImageStatusResponse>, Status> {
        let work = |world: &mut World, q: ImageStatusRequest| {
            let name = q.image.unwrap_or_default().image;
            Ok(ImageStatusResponse { image: world.images.get(&name).cloned(), ..Default::default() })
        };
        self.serve(Operation::ImageStatus, q, |q| q.image.clone().unwrap_or_default().image, work).await
    }

    async fn pull_image(&self, q: Request<PullImageRequest>) -> Result<Response<PullImageResponse>, Status> {
        let work = |world: &mut World, q: PullImageRequest| {
            let user = q.auth.unwrap_or_default().username;
            if user.starts_with("no") {
                return Err(Status::unauthenticated(format!("{user} is refused")));
            }
            let name = q.image.unwrap_or_default().image;
            let id = format!("sha256:{:064x}", world.tick());
            let image = Image {
                id: id.clone(),
                repo_tags: vec![name.clone()],
                repo_digests: vec![format!("{}@{id}", name.split(':').next().unwrap_or_default())],
                size: 1234,
                ..Default::default()
            };
            world.images.insert(name, image.clone());
            world.images.insert(id.clone(), image);
            Ok(PullImageResponse { image_ref: id })
        };
        self.serve(Operation::PullImage, q, |q| q.image.clone().unwrap_or_default().image, work).await
    }

    async fn list_images(&self, q: Request<ListImagesRequest>) -> Result<Response<ListImagesResponse>, Status> {
        let work = |world: &mut World, _| Ok(ListImagesResponse { images: world.images.values().cloned().collect() });
        self.serve(Operation::ListImages, q, |_| String::new(), work).await
    }
}
